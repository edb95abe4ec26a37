# kernel/host: libhost.la is the front's end; cadre-host is the process that runs cells.
noinst_LTLIBRARIES += libhost.la
libhost_la_SOURCES = \
    kernel/host/host.h \
    kernel/host/protocol.h \
    kernel/host/packet.c \
    kernel/host/front.h \
    kernel/host/front.c \
    kernel/host/front_events.c \
    kernel/host/front_show.c \
    kernel/host/front_trace.c \
    kernel/host/memory.h \
    kernel/host/memory.c
libhost_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
libhost_la_LIBADD = libtypes.la libbase.la $(JANSSON_LIBS)

pkglibexec_PROGRAMS += cadre-host
cadre_host_SOURCES = \
    kernel/host/protocol.h \
    kernel/host/inside.h \
    kernel/host/packet.c \
    kernel/host/main.c \
    kernel/host/run.c \
    kernel/host/hooks.c \
    kernel/host/hooks_magics.c \
    kernel/host/hooks_store.c \
    kernel/cell/stored.c kernel/cell/stored.h \
    kernel/host/snapshot.c \
    kernel/host/crash.c \
    kernel/host/interrupt.c \
    kernel/host/streams.c \
    kernel/host/input.c \
    kernel/host/process.c \
    kernel/host/waits.c \
    kernel/host/signals.c \
    kernel/host/threads.c \
    kernel/host/limits.c \
    kernel/host/memory.h \
    kernel/host/memory.c \
    kernel/host/libraries.c
cadre_host_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(SODIUM_CFLAGS)
# Cells find what the host is linked to: OpenBLAS and libcadre whether or not it uses them itself.
cadre_host_LDFLAGS = $(AM_LDFLAGS) -Wl,--no-as-needed
cadre_host_LDADD = libload.la libbase.la libcadre.la $(SODIUM_LIBS) $(OPENBLAS_LIBS) -lgcc_s -lm -lpthread -ldl
