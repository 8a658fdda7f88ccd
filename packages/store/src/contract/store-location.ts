/** Where a database is. */
export type StoreLocation =
  | { readonly kind: 'sqlite'; readonly path: string }
  | {
      readonly kind: 'postgres';
      /** `postgres://USER:PASSWORD@HOST:PORT/DATABASE`; what is left out comes from the variables of libpq */
      readonly url: string;
      /** connections of this process at most, default 8; one more listens */
      readonly maxConnections?: number;
    };
