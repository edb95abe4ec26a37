# runtime/loop
cadreloopincludedir = $(cadreincludedir)/loop
cadreloopinclude_HEADERS = runtime/loop/loop.h
