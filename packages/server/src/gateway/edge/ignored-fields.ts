import type { FastifyInstance, FastifyRequest } from 'fastify';

/** Response header with the fields of a request that the service does not know. */
export const IGNORED_HEADER = 'x-trainyard-ignored';

/** More names, and longer ones, are counted and cut: headers have a limit. */
const MAX_NAMED = 20;
const MAX_NAME_CHARACTERS = 64;

/** A schema as far as it names members. */
interface Named {
  readonly properties?: Readonly<Record<string, Named>>;
  readonly anyOf?: readonly Named[];
  readonly additionalProperties?: unknown;
}

/**
 * Reports the fields of requests to sample that the service does not know: by name in a header of the answer, by number to `onIgnored`. Clients of other
 * servers send some of their own, so they are not refused. Call it before the routes are registered: their own hooks change bodies.
 */
export function reportIgnoredFields(
  app: FastifyInstance,
  onIgnored: (handler: string, numFields: number) => void,
): void {
  app.addHook('preValidation', (request, reply, done) => {
    const { config, schema, url = '' } = request.routeOptions;
    if (config.scope === 'inference' && schema?.body !== undefined) {
      const names = unknownFields(request.body, schema.body as Named);
      if (names.length > 0) {
        reply.header(IGNORED_HEADER, headerOf(names));
        onIgnored(url, names.length);
      }
    }
    done();
  });
}

/** Fields without a place in the schema, and those of its members that have named members only. Null asks for nothing, known or not. */
function unknownFields(body: FastifyRequest['body'], schema: Named, place = ''): string[] {
  const known = membersOf(schema);
  if (known === null || typeof body !== 'object' || body === null || Array.isArray(body)) return [];
  return Object.entries(body).flatMap(([name, value]) => {
    if (!Object.hasOwn(known, name)) return value === null ? [] : [`${place}${name}`];
    return place === '' ? unknownFields(value, known[name]!, `${name}.`) : [];
  });
}

/** Null: any members are its own. */
function membersOf({ properties, anyOf = [], additionalProperties }: Named): Readonly<Record<string, Named>> | null {
  if (properties !== undefined) return additionalProperties === true ? null : properties;
  const branches = anyOf.map(membersOf).filter((members) => members !== null);
  return branches.length === 0 ? null : (Object.assign({}, ...branches) as Record<string, Named>);
}

function headerOf(names: readonly string[]): string {
  // Names may have any characters; headers may not.
  const shown = names
    .slice(0, MAX_NAMED)
    .map((name) => encodeURI(name.slice(0, MAX_NAME_CHARACTERS).toWellFormed()).replaceAll(',', '%2C'));
  return [...shown, ...(names.length > MAX_NAMED ? [`and ${names.length - MAX_NAMED} more`] : [])].join(', ');
}
