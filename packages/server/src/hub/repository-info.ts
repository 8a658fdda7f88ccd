import { HubError } from '../seams/faults/hub-error.ts';

/** A file of a repository, as the hub lists it. */
export interface RepositoryFile {
  /** Relative, without `..`. */
  readonly path: string;
  readonly sizeBytes: number;
  /** Digest of its content. `git` is the SHA-1 of a git blob: its length and its bytes. */
  readonly digest: { readonly kind: 'sha256' | 'git'; readonly hex: string };
}

export interface RepositoryInfo {
  /** Commit of the revision. */
  readonly commit: string;
  readonly files: ReadonlyMap<string, RepositoryFile>;
}

const MAX_FILES = 100_000;
const MAX_FILE_BYTES = 2 ** 50;
const COMMIT = /^[0-9a-f]{40}$/;
const SHA256 = /^[0-9a-f]{64}$/;

export function isCommit(revision: string): boolean {
  return COMMIT.test(revision);
}

/**
 * Checks the hub's information about a repository. Names and digests become file names of this machine, so each
 * must have its form.
 * @throws {HubError} `hub.answer_invalid`
 */
export function readRepositoryInfo(answer: unknown, subject: string): RepositoryInfo {
  const refuse = (problem: string): never => {
    throw new HubError('hub.answer_invalid', `The hub's answer about ${subject} is refused: ${problem}`);
  };
  const { sha, siblings } = fieldsOf(answer);
  if (typeof sha !== 'string' || !isCommit(sha)) return refuse('`sha` is not a commit id');
  if (!Array.isArray(siblings) || siblings.length > MAX_FILES)
    return refuse(`\`siblings\` is not a list of at most ${MAX_FILES} files`);
  const files = new Map<string, RepositoryFile>();
  for (const sibling of siblings as readonly unknown[]) {
    const file = fileOf(fieldsOf(sibling), refuse);
    if (files.has(file.path)) return refuse(`it lists ${shortened(file.path)} twice`);
    files.set(file.path, file);
  }
  return { commit: sha, files };
}

function fileOf(fields: Readonly<Record<string, unknown>>, refuse: (problem: string) => never): RepositoryFile {
  const { rfilename: path, size, blobId } = fields;
  if (typeof path !== 'string' || !staysInFolder(path))
    return refuse(`the file name ${shortened(path)} leaves a folder`);
  const { sha256, size: storedBytes = size } = fieldsOf(fields['lfs']);
  if (
    typeof storedBytes !== 'number' ||
    !Number.isSafeInteger(storedBytes) ||
    storedBytes < 0 ||
    storedBytes > MAX_FILE_BYTES
  )
    return refuse(`the size of ${shortened(path)} is ${shortened(storedBytes)}`);
  if (fields['lfs'] != null) {
    if (typeof sha256 !== 'string' || !SHA256.test(sha256)) return refuse(`${shortened(path)} has no valid SHA-256`);
    return { path, sizeBytes: storedBytes, digest: { kind: 'sha256', hex: sha256 } };
  }
  if (typeof blobId !== 'string' || !isCommit(blobId)) return refuse(`${shortened(path)} has no valid blob id`);
  return { path, sizeBytes: storedBytes, digest: { kind: 'git', hex: blobId } };
}

/** Refuses absolute names, `..`, empty parts, other separators and control characters. */
function staysInFolder(path: string): boolean {
  if (path === '' || path.length > 1_000 || /[\\:\p{Cc}]/u.test(path)) return false;
  return path.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && part.length <= 255);
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function shortened(value: unknown): string {
  return (JSON.stringify(value) ?? 'missing').slice(0, 120);
}
