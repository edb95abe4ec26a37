# runtime/cpu
cadrecpuincludedir = $(cadreincludedir)/cpu
cadrecpuinclude_HEADERS = runtime/cpu/cpu.h
libcadre_la_SOURCES += runtime/cpu/cpu.c runtime/cpu/cpu_limits.h runtime/cpu/quota.c
