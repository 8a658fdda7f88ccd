import type { HttpFault } from '../shape/errors.ts';
import { ErrorBodySchema, faultStatus } from '../shape/errors.ts';
import { FIELD_DESCRIPTIONS } from './field-descriptions.ts';
import { StreamErrorSchema } from '../inference/chat-response.ts';
import { OPERATION_EXAMPLES, type OperationExample } from './operation-examples.ts';
import { OPERATIONS } from './operations/index.ts';
import { type Operation, refusesOtherQueries } from './operations/operation-parts.ts';

export type JsonSchema = Record<string, unknown>;

export interface OpenApiParameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required: boolean;
  description: string;
  schema: JsonSchema;
  example?: unknown;
}

/** Content of a body with one media type. */
export interface OpenApiContent {
  schema: JsonSchema;
  example?: unknown;
}

export interface OpenApiResponse {
  description: string;
  content: Record<string, OpenApiContent>;
}

export interface OpenApiOperation {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  /** Scope required of the key. */
  'x-scope': string;
  parameters?: OpenApiParameter[];
  requestBody?: { required: true; description?: string; content: Record<string, OpenApiContent> };
  responses: Record<string, OpenApiResponse>;
  security: Record<string, string[]>[];
}

export interface OpenApiDocument {
  openapi: '3.1.0';
  info: { title: string; version: string; description: string; license: { name: string; identifier: string } };
  servers: { url: string; description: string }[];
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, OpenApiOperation>>;
  components: { schemas: Record<string, JsonSchema>; securitySchemes: Record<string, JsonSchema> };
}

const SECURITY_SCHEME = 'apiKey';
const TAGS = [
  { name: 'Inference', description: 'Sample from the base model and from every trained model.' },
  { name: 'Training', description: 'Register models, train them on rollouts, read their checkpoints.' },
  {
    name: 'Service',
    description: 'Status of the service, and access to it. Routes that only report status need no key.',
  },
];

/** Servers. Tools use the first: relative, because the document comes from the service that it describes. */
const SERVERS = [
  { url: '/', description: 'The service that served this document.' },
  { url: 'http://127.0.0.1:8420', description: 'Default listen address of a service.' },
];

/**
 * The API as an OpenAPI 3.1 document, from the schemas that requests are checked with.
 *
 * @param faults status and class of every code; each operation lists the statuses of its own codes
 */
export function openApiDocument(options: {
  version: string;
  faults: Readonly<Record<string, HttpFault>>;
}): OpenApiDocument {
  const components = new Components();
  const errorBody = components.reference(ErrorBodySchema);
  const paths: OpenApiDocument['paths'] = {};
  for (const operation of OPERATIONS) {
    for (const [index, path] of operation.paths.entries()) {
      const { method } = operation;
      paths[path] ??= {};
      paths[path][method] = toOperation(operation, index, components, { errorBody, faults: options.faults });
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Trainyard',
      version: options.version,
      description: 'A service that samples from language models and trains them.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: SERVERS,
    tags: TAGS,
    paths,
    components: {
      schemas: components.schemas,
      securitySchemes: {
        [SECURITY_SCHEME]: {
          type: 'http',
          scheme: 'bearer',
          description:
            'API key, also accepted in the header `x-api-key`. Each operation names the scope that the key needs. The scope `admin` includes the others.',
        },
      },
    },
  };
}

function toOperation(
  operation: Operation,
  pathIndex: number,
  components: Components,
  errors: { errorBody: JsonSchema; faults: Readonly<Record<string, HttpFault>> },
): OpenApiOperation {
  const { id, scope } = operation;
  const parameters = toParameters(operation);
  return {
    operationId: pathIndex === 0 ? id : `${id}${pathIndex + 1}`,
    tags: [operation.tag],
    summary: operation.summary,
    description: `${operation.description}${pathIndex === 0 ? '' : ` The same as \`${operation.paths[0]}\`.`}`,
    'x-scope': scope,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...toRequestBody(operation, components),
    responses: {
      ...toAnswers(operation, components),
      ...toFaults(operation, {
        ...errors,
        ...(operation.error === undefined ? {} : { errorBody: components.reference(operation.error) }),
      }),
    },
    security: scope === 'public' ? [] : [{ [SECURITY_SCHEME]: [] }],
  };
}

const exampleOf = ({ id }: Operation): OperationExample => OPERATION_EXAMPLES[id] ?? {};
const withExample = <Part extends object>(part: Part, example: unknown): Part & { example?: unknown } =>
  example === undefined ? part : { ...part, example };

function toRequestBody(operation: Operation, components: Components): Pick<OpenApiOperation, 'requestBody'> {
  const { body, upload } = operation;
  const example = exampleOf(operation).body;
  if (body !== undefined) {
    const content = { 'application/json': withExample({ schema: components.reference(body) }, example) };
    return { requestBody: { required: true, content } };
  }
  if (upload === undefined) return {};
  const { mediaTypes, description } = upload;
  const content = Object.fromEntries(
    mediaTypes.map((type) => [type, withExample({ schema: textOrBytes(type) }, example)]),
  );
  return { requestBody: { required: true, description, content } };
}

/** Client generators use bytes if the format says binary. */
const textOrBytes = (mediaType: string): JsonSchema => ({
  type: 'string',
  ...(mediaType === 'application/octet-stream' && { format: 'binary' }),
});

function toParameters(operation: Operation): OpenApiParameter[] {
  const { pathParameters = {}, query, isIdempotent } = operation;
  const example = exampleOf(operation);
  const inPath = Object.entries(pathParameters).map(([name, description]): OpenApiParameter =>
    withExample(
      { name, in: 'path', required: true, description, schema: { type: 'string', minLength: 1 } },
      example.path?.[name],
    ),
  );
  const properties = (query?.properties ?? {}) as Record<string, JsonSchema>;
  // `include[]` is another spelling of `include`; generated clients would have two parameters of one name.
  const inQuery = Object.entries(properties)
    .filter(([name]) => !(name.endsWith('[]') && Object.hasOwn(properties, name.slice(0, -2))))
    .map(([name, { description, ...schema }]): OpenApiParameter =>
      withExample(
        { name, in: 'query', required: false, description: String(description), schema },
        example.query?.[name],
      ),
    );
  const key: OpenApiParameter = {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    description:
      'Repeating a request with the same key takes effect only once and returns the same answer. Ignored by streams.',
    schema: { type: 'string', minLength: 1, maxLength: 256, pattern: '^[\\x20-\\x7e]+$' },
  };
  return [...inPath, ...inQuery, ...(isIdempotent ? [key] : [])];
}

function toAnswers(operation: Operation, components: Components): Record<string, OpenApiResponse> {
  const { answer, chunk, streamError = StreamErrorSchema, isNamedStream = false, otherAnswers = {} } = operation;
  const example = exampleOf(operation);
  const json = (schema: object) => ({ 'application/json': { schema: components.reference(schema) } });
  const content: Record<string, OpenApiContent> =
    'mediaType' in answer
      ? Object.fromEntries(
          [answer.mediaType as string, ...((answer.otherMediaTypes as readonly string[] | undefined) ?? [])].map(
            (type) => [type, { schema: textOrBytes(type) }],
          ),
        )
      : { 'application/json': withExample({ schema: components.reference(answer) }, example.answer) };
  if (chunk !== undefined) {
    const schema = toEventSchema(
      [chunk, streamError].map((event) => components.reference(event)),
      isNamedStream,
    );
    content['text/event-stream'] = withExample({ schema }, example.chunk);
  }
  const answers: Record<string, OpenApiResponse> = {
    200: { description: 'Done.', content },
  };
  for (const [status, { description, schema }] of Object.entries(otherAnswers))
    answers[status] = { description, content: schema === undefined ? {} : json(schema) };
  return answers;
}

/** Schema under `text/event-stream`: as most tools expect, that of the `data` of one event. */
function toEventSchema(events: JsonSchema[], isNamed: boolean): JsonSchema {
  return {
    description: isNamed
      ? 'Each event of the stream has one of these objects as its `data`. Its `type` is the name of the event.'
      : 'Each event of the stream has one of these objects as its `data`. The `data` of the last event is the text `[DONE]`.',
    anyOf: events,
  };
}

/** One response per status, which names its codes. */
function toFaults(
  operation: Operation,
  errors: { errorBody: JsonSchema; faults: Readonly<Record<string, HttpFault>> },
): Record<string, OpenApiResponse> {
  const codesByStatus = new Map<number, Set<string>>();
  const ofQuery = refusesOtherQueries(operation.paths[0]) ? ['request.invalid'] : [];
  for (const code of new Set([...operation.faults, ...ofQuery])) {
    const fault = errors.faults[code];
    if (fault === undefined) throw new Error(`${operation.id} lists the unknown code ${code}`);
    const status = faultStatus(fault, operation.scope, operation.pathParameters !== undefined);
    codesByStatus.set(status, (codesByStatus.get(status) ?? new Set()).add(code));
  }
  const answers: Record<string, OpenApiResponse> = {};
  for (const [status, codes] of [...codesByStatus].toSorted(([first], [second]) => first - second)) {
    answers[status] = {
      description: [...codes].map((code) => `\`${code}\``).join(', '),
      content: { 'application/json': { schema: errors.errorBody } },
    };
  }
  return answers;
}

/** Schemas of the document: those with a title become components; others stay inline. */
class Components {
  readonly schemas: Record<string, JsonSchema> = {};

  reference(schema: object): JsonSchema {
    return this.#walk(JSON.parse(JSON.stringify(schema))) as JsonSchema;
  }

  #walk(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((item) => this.#walk(item));
    if (typeof value !== 'object' || value === null) return value;
    const schema = value as JsonSchema;
    const { title, properties } = schema;
    const isNamed = typeof title === 'string' && typeof properties === 'object';
    const walked = Object.fromEntries(Object.entries(schema).map(([key, member]) => [key, this.#walk(member)]));
    if (!isNamed) return walked;
    this.schemas[title] ??= described(walked, title);
    return { $ref: `#/components/schemas/${title}` };
  }
}

/** Adds the descriptions of a request's fields to their schemas. */
function described(schema: JsonSchema, title: string): JsonSchema {
  const words = FIELD_DESCRIPTIONS[title];
  if (words === undefined) return schema;
  const properties = Object.fromEntries(
    Object.entries(schema['properties'] as Record<string, JsonSchema>).map(([name, field]) => {
      const description = words[name];
      return [name, description === undefined ? field : { ...field, description }];
    }),
  );
  return { ...schema, properties };
}
