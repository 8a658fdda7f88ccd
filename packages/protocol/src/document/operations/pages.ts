import Type from 'typebox';

import { EVERY_ROUTE, type Operation } from './operation-parts.ts';

/** Pages and documents about the service. */
export const PAGE_OPERATIONS: readonly Operation[] = [
  {
    id: 'home',
    method: 'get',
    paths: ['/'],
    scope: 'public',
    tag: 'Service',
    summary: 'Overview of the service, its status and next steps',
    description: 'HTML for browsers, plain text for clients that do not accept `text/html`.',
    answer: { mediaType: 'text/html', otherMediaTypes: ['text/plain'] },
    faults: EVERY_ROUTE,
  },
  {
    id: 'openApi',
    method: 'get',
    paths: ['/openapi.json'],
    scope: 'public',
    tag: 'Service',
    summary: 'OpenAPI document of this API',
    description: 'OpenAPI 3.1, generated from the schemas that validate the requests.',
    answer: Type.Object({ openapi: Type.Literal('3.1.0') }, { description: 'An OpenAPI document.' }),
    faults: EVERY_ROUTE,
  },
  {
    id: 'reference',
    method: 'get',
    paths: ['/docs'],
    scope: 'public',
    tag: 'Service',
    summary: 'API reference as a web page',
    description: 'A single page without external resources.',
    answer: { mediaType: 'text/html' },
    faults: EVERY_ROUTE,
  },
];
