import pg from 'pg';

type Connected = (error: Error | null) => void;

/**
 * Client that closes a connection that cannot be used. After a failure on this side (a missing password, an
 * unknown way of signing in) the driver leaves it open: the server holds its place, by default for a minute,
 * and this process would not end until then.
 */
export class ClosingClient extends pg.Client {
  override connect(): Promise<pg.Client>;
  override connect(callback: Connected): void;
  override connect(callback?: Connected): Promise<pg.Client> | void {
    const closing = (connected: Connected) =>
      super.connect((error: Error | null) => {
        if (error) this.connection.stream.destroy();
        connected(error);
      });
    if (callback !== undefined) return closing(callback);
    return new Promise((resolve, reject) => closing((error) => (error ? reject(error) : resolve(this))));
  }
}
