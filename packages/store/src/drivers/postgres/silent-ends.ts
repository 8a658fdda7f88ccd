/** A connection that nobody uses is asked after so long whether its other end is there; operating systems ask after two hours. */
export const KEEP_ALIVE_MS = 30_000;

/** So long a server may go on with a statement whose client is gone. */
const GONE_MS = 2_000;

/**
 * A server hears nothing more of a client that is cut off, not even an end. What it keeps for it, one of its few connections above all, is free again within a
 * minute of this. It is said of a connection, not of what is done on it: where a pooler shares connections, it is right for everybody.
 */
export const FORGET_SILENT_CLIENTS = [
  `set tcp_keepalives_idle = ${KEEP_ALIVE_MS / 1000}`,
  'set tcp_keepalives_interval = 5',
  'set tcp_keepalives_count = 3',
  // Of what was sent and is not taken, such as a notification.
  'set tcp_user_timeout = 20000',
  // Of a statement that computes or waits for a lock, whose client has given it up or is dead. A limit of its time cannot be set here, which a pooler would hand on to
  // others; nor sent with the name of the user, which poolers refuse. Servers before PostgreSQL 14, and those on Windows, do not have it.
  `do $$ begin set client_connection_check_interval = ${GONE_MS}; exception when others then null; end $$`,
].join('; ');
