/** Idle time before keep-alive probes of a connection; the default of operating systems is two hours. */
export const KEEP_ALIVE_MS = 30_000;

/** Maximum time for which a server continues a statement whose client is gone. */
const GONE_MS = 2_000;

/**
 * Settings that free a server's resources within a minute after a client is cut off without an end, above all
 * its connection. They apply to a connection and not to its work, so they are right for all users of a pooled
 * connection.
 */
export const FORGET_SILENT_CLIENTS = [
  `set tcp_keepalives_idle = ${KEEP_ALIVE_MS / 1000}`,
  'set tcp_keepalives_interval = 5',
  'set tcp_keepalives_count = 3',
  // Limit for data sent but not acknowledged, such as a notification.
  'set tcp_user_timeout = 20000',
  // For a statement that computes or waits for a lock after its client is gone. A statement timeout here
  // would reach other users of a pooler; poolers refuse options in the startup message. Missing before
  // PostgreSQL 14 and on Windows.
  `do $$ begin set client_connection_check_interval = ${GONE_MS}; exception when others then null; end $$`,
].join('; ');
