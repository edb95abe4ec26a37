# runtime/notebook; kernel/wire is the only part of the kernel that the runtime uses.
cadrenotebookincludedir = $(cadreincludedir)/notebook
cadrenotebookinclude_HEADERS = runtime/notebook/notebook.h runtime/notebook/json.h
libcadre_la_SOURCES += runtime/notebook/json.c runtime/notebook/document.h \
    runtime/notebook/document.c runtime/notebook/kernelspec.h runtime/notebook/kernelspec.c \
    runtime/notebook/worker_kernel.h runtime/notebook/worker_kernel.c runtime/notebook/outputs.h \
    runtime/notebook/outputs.c runtime/notebook/return.c runtime/notebook/run.c
