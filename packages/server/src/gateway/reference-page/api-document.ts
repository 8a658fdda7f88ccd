import { type OpenApiDocument, openApiDocument } from '@trainyard/protocol';

import { HTTP_FAULTS } from '../../seams/faults/http-faults.ts';
import { SERVICE_VERSION } from '../../seams/contract/service-version.ts';

/** The API of this version as an OpenAPI document. */
export function apiDocument(): OpenApiDocument {
  return openApiDocument({ version: SERVICE_VERSION, faults: HTTP_FAULTS });
}
