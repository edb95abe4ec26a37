# kernel/session
