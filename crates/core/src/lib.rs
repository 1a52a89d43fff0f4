//! Every decision of quell, without I/O: sessions, queues, timers and counters.
