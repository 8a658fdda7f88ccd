/**
 * Order of requests. `priority`: lower numbers first, and a more urgent request takes cells and slots from
 * the tenant's less urgent ones. `fcfs`: in order of arrival.
 */
export type SchedulingPolicy = 'priority' | 'fcfs';
