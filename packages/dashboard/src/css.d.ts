/** The bundler puts style sheets that are imported into one file beside the script. */
declare module '*.css';
