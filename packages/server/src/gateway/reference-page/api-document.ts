import { type OpenApiDocument, openApiDocument } from '@trainyard/protocol';

import { HTTP_FAULTS } from '../../seams/faults/http-faults.ts';
import { SERVICE_VERSION } from '../../seams/contract/service-version.ts';

/** OpenAPI document of this version's API. */
export function apiDocument(): OpenApiDocument {
  return openApiDocument({ version: SERVICE_VERSION, faults: HTTP_FAULTS });
}
