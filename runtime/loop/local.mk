# runtime/loop
cadreloopincludedir = $(cadreincludedir)/loop
cadreloopinclude_HEADERS = runtime/loop/loop.h
libcadre_la_SOURCES += runtime/loop/loop.c runtime/loop/run.h runtime/loop/pool.h \
    runtime/loop/pool.c runtime/loop/worker.c runtime/loop/threads.c runtime/loop/train.c \
    runtime/loop/folder.c runtime/loop/report.c
