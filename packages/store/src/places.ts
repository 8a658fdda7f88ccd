/**
 * Folders of a machine and addresses of a store, for code that opens no store: no module of a database is
 * loaded. `@trainyard/store/places`.
 */
export type { BlobLocation } from './contract/blobs.ts';
export type { StoreLocation } from './contract/store-location.ts';
export { addressProblem } from './drivers/postgres/address-problem.ts';
export { fillSpace } from './folders/fill-space.ts';
export { makeFolders } from './folders/make-folders.ts';
export { createFile, replaceFile, syncFolder } from './folders/replace-file.ts';
