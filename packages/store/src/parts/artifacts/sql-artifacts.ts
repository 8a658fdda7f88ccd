import type { Access } from '../access.ts';
import type { Artifacts } from './artifacts.ts';

export function sqlArtifacts({ tables, now, writeAnswered }: Access): Artifacts {
  return {
    add: (input) => writeAnswered(({ artifacts }) => artifacts.add(input, now()), input.completes),
    find: async (name, version) => await tables.artifacts.find(name, version),
    list: async (query) => await tables.artifacts.list(query),
    delete: (artifactId, completes) =>
      writeAnswered(
        ({ artifacts }) => artifacts.delete(artifactId, now()),
        (isDeleted) => (isDeleted ? completes : undefined),
      ),
  };
}
