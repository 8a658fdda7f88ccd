import type { Migration } from './migration.ts';

/** Differences between sampler and trainer, which were one series for all gradient steps of a job. */
const SAMPLER_SERIES = [
  'logprob_gap_mean',
  'logprob_gap_p99',
  'logprob_gap_max',
  'probs_corr',
  'kl_sampler',
  'kl_sampler_k1',
  'surprisal_excess',
  'surprisal_excess_error',
]
  .map((name) => `'train/${name}'`)
  .join(', ');

/**
 * Each point of a run names its job, so that those of failed and cancelled jobs can be left out; series of the
 * sampler are two: of first gradient steps (`train/fresh/…`) and of later ones (`train/updated/…`). Older
 * points are of the job whose events have the same places in the order of the model's gradient steps.
 */
export const POINTS_OF_JOBS: Migration = {
  version: 36,
  name: 'points of jobs',
  sql: ({ integer, tableEnd }) => `
alter table metric_points add column job_position ${integer};
create table steps_of_jobs (
  model_id text not null,
  gradient_step ${integer} not null,
  job_position ${integer} not null,
  is_first ${integer} not null,
  primary key (model_id, gradient_step)
)${tableEnd};
insert into steps_of_jobs (model_id, gradient_step, job_position, is_first)
  select j.model_id, row_number() over (partition by j.model_id order by e.created_at, j.position, e.seq) - 1, j.position,
    case when e.dedupe_key = 'gradient_step:0' then 1 else 0 end
  from jobs j join job_events e on e.job_id = j.id where e.type = 'gradient_step' and j.model_id is not null;
delete from steps_of_jobs where model_id in (
  select m.id from models m where m.num_gradient_steps <> (select count(*) from steps_of_jobs o where o.model_id = m.id));
update metric_points set job_position = (
    select o.job_position from metric_series s join steps_of_jobs o on o.model_id = s.model_id
    where s.id = metric_points.series_id and o.gradient_step = metric_points.gradient_step)
  where gradient_step is not null;
insert into metric_series (model_id, name, num_points)
  select s.model_id, case when coalesce(o.is_first, 0) = 1 then 'train/fresh/' else 'train/updated/' end || substr(s.name, 7), count(*)
  from metric_series s join metric_points p on p.series_id = s.id
  left join steps_of_jobs o on o.model_id = s.model_id and o.gradient_step = p.gradient_step
  where s.name in (${SAMPLER_SERIES})
  group by s.model_id, s.name, coalesce(o.is_first, 0);
insert into metric_points (series_id, position, step, gradient_step, value, recorded_at, job_position)
  select n.id, row_number() over (partition by n.id order by p.position) - 1, p.step, p.gradient_step, p.value, p.recorded_at, p.job_position
  from metric_series s join metric_points p on p.series_id = s.id
  left join steps_of_jobs o on o.model_id = s.model_id and o.gradient_step = p.gradient_step
  join metric_series n on n.model_id = s.model_id
    and n.name = case when coalesce(o.is_first, 0) = 1 then 'train/fresh/' else 'train/updated/' end || substr(s.name, 7)
  where s.name in (${SAMPLER_SERIES});
delete from metric_points where series_id in (select id from metric_series where name in (${SAMPLER_SERIES}));
delete from metric_series where name in (${SAMPLER_SERIES});
drop table steps_of_jobs;
create index trajectories_by_outcome on trajectories (model_position, outcome, position);
create index trajectories_by_finish on trajectories (model_position, finish_reason, position);
create index trajectories_by_tokens on trajectories (model_position, num_tokens, position);
create index trajectories_by_turns on trajectories (model_position, num_turns, position);`,
};
