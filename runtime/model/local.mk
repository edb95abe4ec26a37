# runtime/model
cadremodelincludedir = $(cadreincludedir)/model
cadremodelinclude_HEADERS = runtime/model/model.h
libcadre_la_SOURCES += runtime/model/container.h runtime/model/container.c \
    runtime/model/ridge.h runtime/model/ridge.c runtime/model/ridge_rows.c \
    runtime/model/ridge_solve.c
