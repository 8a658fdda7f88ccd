/** Client-chosen request ids: they are sent back and logged, so they must be short and printable. */
export const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;
