import pg from 'pg';

type Connected = (error: Error | null) => void;

/**
 * A client whose connection is closed where it cannot be used. The driver leaves one open that fails on this side, for a password that is missing or a way of
 * signing in that it does not know: the server keeps a place for it, a minute by its own standard, and so long this process would not end.
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
