import type { ArtifactObject } from '@trainyard/protocol';
import type { Artifact } from '@trainyard/store';

export type ArtifactVersion = number | 'latest';

const SCHEME = 'wandb-artifact:///';
const URL_FORM = /^wandb-artifact:\/\/\/?([^/:@]+)\/([^/:@]+)\/([^/:@]+?)(?::([^/:@]+))?$/;
const VERSION = /^v(\d{1,9})$/;

export interface ArtifactUrl {
  entity: string;
  project: string;
  name: string;
  version: ArtifactVersion;
}

/** `wandb-artifact:///ENTITY/PROJECT/NAME:vN`, or with `:latest`, which is optional; null for other text. */
export function parseArtifactUrl(url: string): ArtifactUrl | null {
  const [, entity, project, name, suffix] = URL_FORM.exec(url) ?? [];
  if (entity === undefined || project === undefined || name === undefined) return null;
  const version = parseVersion(suffix ?? 'latest');
  return version === null ? null : { entity, project, name, version };
}

/** `vN` or `latest`; null for other text. */
export function parseVersion(text: string): ArtifactVersion | null {
  if (text === 'latest') return 'latest';
  const digits = VERSION.exec(text)?.[1];
  return digits === undefined ? null : Number(digits);
}

export function toArtifactObject(artifact: Artifact): ArtifactObject {
  const { id, entity, project, name, fileName, sizeBytes, numLines, digest, createdAt } = artifact;
  const version = `v${artifact.version}`;
  return {
    id,
    entity,
    project,
    name,
    version,
    url: `${SCHEME}${entity}/${project}/${name}:${version}`,
    file_name: fileName,
    size_bytes: sizeBytes,
    num_lines: numLines,
    digest,
    created_at: Math.floor(createdAt / 1000),
  };
}
