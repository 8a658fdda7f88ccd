import {
  HealthSchema,
  LivenessSchema,
  ReadinessSchema,
  SystemCheckSchema,
  VersionSchema,
} from '../../service/service-status.ts';
import { EVERY_ROUTE, type Operation } from './operation-parts.ts';

/** Metrics, probes, health and version of the service. */
export const SERVICE_STATUS_OPERATIONS: readonly Operation[] = [
  {
    id: 'metrics',
    method: 'get',
    paths: ['/metrics'],
    scope: 'public',
    tag: 'Service',
    summary: 'Read metrics for Prometheus',
    description:
      'Sampling uses the metric names of vLLM, training uses `trainyard_` names. The label `model_name` is always the base model: labels never contain names of tenants. A key with the scope `admin` is required on an address other than loopback, when `--allowed-hosts` names a foreign host, and through a proxy. The setting `--metrics` changes that.',
    answer: { mediaType: 'text/plain' },
    faults: [...EVERY_ROUTE, 'request.unauthenticated', 'request.forbidden', 'request.not_found'],
  },
  {
    id: 'live',
    method: 'get',
    paths: ['/livez'],
    scope: 'public',
    tag: 'Service',
    summary: 'Check that the process runs',
    description: 'For liveness probes. It depends on no other part: if it does not answer, restart the process.',
    answer: LivenessSchema,
    faults: EVERY_ROUTE,
  },
  {
    id: 'ready',
    method: 'get',
    paths: ['/readyz'],
    scope: 'public',
    tag: 'Service',
    summary: 'Check that the process is ready for requests',
    description:
      'For readiness probes and load balancers. Returns 503 once the process is shutting down, and while the database does not answer or no engine samples.',
    answer: ReadinessSchema,
    otherAnswers: { 503: { description: 'Not ready; the body has the reason.', schema: ReadinessSchema } },
    faults: EVERY_ROUTE,
  },
  {
    id: 'health',
    method: 'get',
    paths: ['/v1/health', '/health', '/ping'],
    scope: 'public',
    tag: 'Service',
    summary: 'Read the health of the service',
    description:
      'Returns 200 while the service can sample. If training or the store has a problem, `status` is `degraded`, with the reasons. `parts` has the state of each part.',
    answer: HealthSchema,
    otherAnswers: { 503: { description: 'The service cannot sample; the body has the reason.', schema: HealthSchema } },
    faults: EVERY_ROUTE,
  },
  {
    id: 'systemCheck',
    method: 'get',
    paths: ['/v1/system-check'],
    scope: 'public',
    tag: 'Service',
    summary: 'Read the state of each part of the service',
    description: 'Uses the part names that training clients expect.',
    answer: SystemCheckSchema,
    otherAnswers: { 503: { description: 'A part is down; the body names it.', schema: SystemCheckSchema } },
    faults: EVERY_ROUTE,
  },
  {
    id: 'version',
    method: 'get',
    paths: ['/v1/version', '/version'],
    scope: 'public',
    tag: 'Service',
    summary: 'Read the version of the service',
    description: 'Returns the version of the service, not of a model.',
    answer: VersionSchema,
    faults: EVERY_ROUTE,
  },
];
