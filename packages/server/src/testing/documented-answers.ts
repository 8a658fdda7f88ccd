import { Ajv, type ValidateFunction } from 'ajv';
import type { FastifyInstance } from 'fastify';
import { type JsonSchema, openApiDocument, type OpenApiOperation } from '@trainyard/protocol';

import { HTTP_FAULTS } from '../seams/faults/http-faults.ts';

const DOCUMENT = JSON.parse(JSON.stringify(openApiDocument({ version: '0', faults: HTTP_FAULTS }))) as ReturnType<
  typeof openApiDocument
>;
const ajv = new Ajv({ strict: false, allErrors: true });
// A key outside the document is an error here, although clients must accept it.
ajv.addSchema({ $id: 'document', ...(closed(DOCUMENT) as object) });
const validators = new Map<string, ValidateFunction>();

export function operationOf(method: string, url: string): OpenApiOperation | undefined {
  const path = url.replaceAll(/:(\w+)/g, '{$1}').replace('/v1/models/*', '/v1/models/{model}');
  return DOCUMENT.paths[path]?.[method.toLowerCase()];
}

/** First deviation of an answer from the OpenAPI document, or null. */
export function answerFault(operation: OpenApiOperation, status: number, body: unknown): string | null {
  const response = operation.responses[status];
  if (response === undefined) return `${operation.operationId} does not document the status ${status}`;
  const schema = response.content['application/json']?.schema;
  return schema === undefined ? null : schemaFault(`${operation.operationId} ${status}`, schema, body);
}

/** First deviation of a stream's event from the OpenAPI document, or null. */
export function eventFault(operation: OpenApiOperation, event: unknown): string | null {
  const schema = operation.responses[200]?.content['text/event-stream']?.schema;
  if (schema === undefined) return `${operation.operationId} documents no stream`;
  return schemaFault(`${operation.operationId} event`, schema, event);
}

/** Turns every JSON answer that deviates from the document into a 500 with the deviation. */
export function refuseUndocumentedAnswers(app: FastifyInstance): void {
  app.addHook('onSend', async (request, reply, payload) => {
    const { url, config } = request.routeOptions;
    const isRoute = url !== undefined && config.scope !== undefined && request.method !== 'HEAD';
    if (!isRoute || typeof payload !== 'string' || !String(reply.getHeader('content-type')).includes('json')) return;
    const operation = operationOf(request.method, url);
    if (operation === undefined) return;
    const fault = answerFault(operation, reply.statusCode, JSON.parse(payload));
    if (fault !== null) throw new Error(`${fault}\n${payload.slice(0, 2000)}`);
  });
}

function schemaFault(name: string, schema: JsonSchema, value: unknown): string | null {
  let validate = validators.get(name);
  if (validate === undefined) {
    validate = ajv.compile(rooted(schema) as JsonSchema);
    validators.set(name, validate);
  }
  return validate(value) ? null : `${name}: ${ajv.errorsText(validate.errors)}`;
}

/** Rewrites the references in a part of the document to absolute ones. */
function rooted(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll('"#/components/', '"document#/components/'));
}

function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.fromEntries(Object.entries(value).map(([key, member]) => [key, closed(member)]));
  const isObjectSchema = members['type'] === 'object' && 'properties' in members;
  return isObjectSchema ? { additionalProperties: false, ...members } : members;
}
