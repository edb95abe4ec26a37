noinst_LTLIBRARIES += libwire.la
libwire_la_SOURCES = kernel/wire/wire.h kernel/wire/wire_private.h kernel/wire/connection.c \
    kernel/wire/identifiers.c kernel/wire/signer.c kernel/wire/text.c kernel/wire/message.c \
    kernel/wire/transmit.c kernel/wire/server.c kernel/wire/client.c
libwire_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/kernel
libwire_la_CFLAGS = $(AM_CFLAGS) $(ZMQ_CFLAGS) $(SODIUM_CFLAGS) $(JANSSON_CFLAGS) -pthread
libwire_la_LIBADD = libbase.la $(ZMQ_LIBS) $(SODIUM_LIBS) $(JANSSON_LIBS)
