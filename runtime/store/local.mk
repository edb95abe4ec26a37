# runtime/store
cadrestoreincludedir = $(cadreincludedir)/store
cadrestoreinclude_HEADERS = runtime/store/store.h
