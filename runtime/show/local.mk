# runtime/show
cadreshowincludedir = $(cadreincludedir)/show
cadreshowinclude_HEADERS = runtime/show/show.h runtime/show/comm.h
libcadre_la_SOURCES += runtime/show/channel.h runtime/show/channel.c runtime/show/display.c \
    runtime/show/comm.c runtime/show/text.c runtime/show/value.c runtime/show/grid.h runtime/show/grid.c runtime/show/progress.c \
    runtime/show/report_bundle.c runtime/show/table_bundle.c
