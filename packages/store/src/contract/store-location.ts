export type StoreLocation =
  | { readonly kind: 'sqlite'; readonly path: string }
  | {
      readonly kind: 'postgres';
      /** `postgres://USER:PASSWORD@HOST:PORT/DATABASE`; missing parts come from the variables of libpq */
      readonly url: string;
      /** maximum connections of this process, default 8, plus one that listens */
      readonly maxConnections?: number;
    };
