# runtime/store
cadrestoreincludedir = $(cadreincludedir)/store
cadrestoreinclude_HEADERS = runtime/store/store.h
libcadre_la_SOURCES += runtime/store/safetensors.c runtime/store/file.c
