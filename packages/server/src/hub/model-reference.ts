/** A model of a hub: a repository in the Hugging Face format, or one GGUF file of a repository. */
export interface ModelReference {
  /** As the user wrote it. */
  readonly text: string;
  /** `ORG/NAME` */
  readonly repository: string;
  /** Branch, tag or commit id. */
  readonly revision: string;
  readonly file:
    /** The files of the Hugging Face format. */
    | { readonly kind: 'folder' }
    /** The GGUF file with this quantisation in its name. */
    | { readonly kind: 'quantisation'; readonly name: string }
    /** A GGUF file by its path in the repository. */
    | { readonly kind: 'path'; readonly path: string };
}

const DEFAULT_REVISION = 'main';
/** The hub's limits: names of letters, digits, `-`, `_` and `.`, at most 96 characters. */
const REFERENCE =
  /^(?<repository>[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,95})(?::(?<quantisation>[A-Za-z0-9][\w.-]{0,31})|\/(?<path>[\w][\w./+-]{0,255}\.gguf))?(?:@(?<revision>[\w][\w./-]{0,199}))?$/i;
/** The hub refuses such names, and the folders of its cache join names by `--`. */
const REFUSED_NAME = /--|\.\.|\.git(?:\/|$)|\.gguf$/i;
/** Parts that would leave a folder. */
const REFUSED_PART = /(?:^|\/)\.|\/\/|\.\./;

/**
 * `ORG/NAME`, `ORG/NAME:QUANTISATION` or `ORG/NAME/FILE.gguf`, each with `@REVISION` for a branch, a tag or a
 * commit. Null for other texts, also for `FOLDER/FILE.gguf`.
 */
export function readModelReference(text: string): ModelReference | null {
  const { repository, quantisation, path, revision = DEFAULT_REVISION } = REFERENCE.exec(text)?.groups ?? {};
  if (repository === undefined || REFUSED_NAME.test(repository)) return null;
  if (REFUSED_PART.test(path ?? '') || REFUSED_PART.test(revision)) return null;
  const file =
    quantisation !== undefined
      ? ({ kind: 'quantisation', name: quantisation } as const)
      : path !== undefined
        ? ({ kind: 'path', path } as const)
        : ({ kind: 'folder' } as const);
  return { text, repository, revision, file };
}
