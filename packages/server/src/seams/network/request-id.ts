/** Request ids that clients may choose: they are sent back and logged, so they are short and printable. */
export const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;
