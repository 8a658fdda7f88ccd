import type { FastifyInstance, FastifyRequest } from 'fastify';

/** Response header that lists the unknown fields of a request. */
export const IGNORED_HEADER = 'x-trainyard-ignored';

/** Limits for the header: further names are only counted, and longer ones truncated. */
const MAX_NAMED = 20;
const MAX_NAME_CHARACTERS = 64;

interface Named {
  readonly properties?: Readonly<Record<string, Named>>;
  readonly anyOf?: readonly Named[];
  readonly additionalProperties?: unknown;
}

/**
 * Reports unknown fields of sampling requests: their names in a header of the answer, their number to
 * `onIgnored`. They are not refused, because clients of other servers send their own. Call it before the
 * routes are registered: their hooks change bodies.
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

/**
 * Fields missing in the schema, also inside members with a fixed set of names. Null values are ignored,
 * because they request nothing.
 */
function unknownFields(body: FastifyRequest['body'], schema: Named, place = ''): string[] {
  const known = membersOf(schema);
  if (known === null || typeof body !== 'object' || body === null || Array.isArray(body)) return [];
  return Object.entries(body).flatMap(([name, value]) => {
    if (!Object.hasOwn(known, name)) return value === null ? [] : [`${place}${name}`];
    return place === '' ? unknownFields(value, known[name]!, `${name}.`) : [];
  });
}

/** Null: any member is allowed. */
function membersOf({ properties, anyOf = [], additionalProperties }: Named): Readonly<Record<string, Named>> | null {
  if (properties !== undefined) return additionalProperties === true ? null : properties;
  const branches = anyOf.map(membersOf).filter((members) => members !== null);
  return branches.length === 0 ? null : (Object.assign({}, ...branches) as Record<string, Named>);
}

function headerOf(names: readonly string[]): string {
  // Names may contain any characters; headers may not.
  const shown = names
    .slice(0, MAX_NAMED)
    .map((name) => encodeURI(name.slice(0, MAX_NAME_CHARACTERS).toWellFormed()).replaceAll(',', '%2C'));
  return [...shown, ...(names.length > MAX_NAMED ? [`and ${names.length - MAX_NAMED} more`] : [])].join(', ');
}
