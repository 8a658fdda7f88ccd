import { LEASE_MS, REQUEST_MS } from './faults.ts';

/** Transaction setting with the time when the transaction was requested, ms since the epoch. */
export const LEDGER_CLOCK = 'ledger.now';

/** Maximum wait of a transaction for its turn, with a margin. */
const TURN_MS = 7_000;

/**
 * Makes a schema record writes to a job without its claim. Only the database knows the connection, by each
 * process's `application_name`: writes of a worker that has lost a job look like repeated events. It also
 * records claims lost by time, transactions with a command's effect and those that keep an answer, and
 * processes that take over or answer another's request.
 */
export const LEDGER = `
  create table ledger_claims (job_id text primary key, process text not null, renewed_at bigint not null);
  create table ledger_takeovers (job_id text not null, process text not null, renewed_at bigint not null, at bigint not null);
  create table ledger_requests (key_id text not null, key text not null, process text not null, renewed_at bigint not null, primary key (key_id, key));
  create table ledger_intrusions (what text not null);
  create table ledger_effects (what text not null, transaction bigint not null);
  create table ledger_answers (transaction bigint not null);

  create function ledger_now() returns bigint language sql stable as $$ select current_setting('${LEDGER_CLOCK}')::bigint $$;
  create function ledger_process() returns text language sql stable as $$ select current_setting('application_name') $$;
  -- Processes of one slot follow one another: the next one may take up what the one before it held.
  create function ledger_slot(process text) returns text language sql immutable as $$ select split_part(process, '.', 1) $$;

  create function ledger_check(job text, what text) returns void language plpgsql as $$
  declare holder text := (select process from ledger_claims where job_id = job);
  begin
    if ledger_slot(holder) is distinct from ledger_slot(ledger_process()) then
      insert into ledger_intrusions values (format('%s: %s of job %s, which %s holds', ledger_process(), what, job, coalesce(holder, 'nobody')));
    end if;
  end $$;

  create function ledger_take_over(job text) returns void language plpgsql as $$
  declare claim ledger_claims := (select c from ledger_claims c where job_id = job);
  begin
    insert into ledger_takeovers values (job, claim.process, claim.renewed_at, ledger_now());
    if ledger_now() + ${TURN_MS} < claim.renewed_at + ${LEASE_MS} then
      insert into ledger_intrusions values
        (format('%s: takes over job %s %s ms after %s renewed it', ledger_process(), job, ledger_now() - claim.renewed_at, claim.process));
    end if;
  end $$;

  create function ledger_of_jobs() returns trigger language plpgsql as $$
  begin
    if new.fencing_token > old.fencing_token then
      -- An operator has taken it away before where it ended at 0.
      if old.status = 'running' and old.lease_expires_at > 0 then perform ledger_take_over(new.id); end if;
      insert into ledger_claims values (new.id, ledger_process(), ledger_now())
        on conflict (job_id) do update set process = excluded.process, renewed_at = excluded.renewed_at;
      return null;
    end if;
    if new.snapshot_key is distinct from old.snapshot_key then perform ledger_check(new.id, 'a snapshot'); end if;
    if new.status = 'succeeded' then perform ledger_check(new.id, 'the end'); end if;
    if old.status = 'running' and new.lease_expires_at > old.lease_expires_at then
      perform ledger_check(new.id, 'a renewal');
      update ledger_claims set renewed_at = ledger_now() where job_id = new.id;
    end if;
    -- What has HTTP pauses jobs of others.
    if old.status = 'running' and new.status = 'queued' and ledger_process() like 'trainer%' then perform ledger_check(new.id, 'the release'); end if;
    if new.status <> 'running' then delete from ledger_claims where job_id = new.id; end if;
    return null;
  end $$;
  create trigger ledger_of_jobs after update on jobs for each row execute function ledger_of_jobs();

  create function ledger_of_commands() returns trigger language plpgsql as $$
  begin
    insert into ledger_effects values
      (format('%s of job %s', case when new.paused_at is null then 'a resume' else 'a pause' end, new.id), txid_current());
    return null;
  end $$;
  create trigger ledger_of_commands after update on jobs for each row
    when (new.finished_at is null and old.paused_at is distinct from new.paused_at) execute function ledger_of_commands();

  create function ledger_of_answers() returns trigger language plpgsql as $$
  begin
    insert into ledger_answers values (txid_current());
    return null;
  end $$;
  create trigger ledger_of_answers after update on idempotency_records for each row
    when (old.status is null and new.status is not null) execute function ledger_of_answers();

  create function ledger_take_request(held ledger_requests, what text) returns void language plpgsql as $$
  begin
    if ledger_slot(held.process) is distinct from ledger_slot(ledger_process()) and ledger_now() + ${TURN_MS} < held.renewed_at + ${REQUEST_MS} then
      insert into ledger_intrusions values
        (format('%s: %s the request %s %s ms after %s was at it', ledger_process(), what, held.key, ledger_now() - held.renewed_at, held.process));
    end if;
  end $$;

  create function ledger_of_requests() returns trigger language plpgsql as $$
  declare held ledger_requests;
  begin
    if tg_op <> 'INSERT' then held := (select r from ledger_requests r where r.key_id = old.key_id and r.key = old.key); end if;
    if tg_op = 'DELETE' then
      if old.status is null then perform ledger_take_request(held, 'drops'); end if;
      return null;
    end if;
    if tg_op = 'UPDATE' and new.status is not null then
      if old.status is not null or ledger_slot(held.process) is distinct from ledger_slot(ledger_process()) then
        insert into ledger_intrusions values (format('%s: answers the request %s, which %s %s', ledger_process(), new.key, held.process,
          case when old.status is null then 'is at' else 'has answered' end));
      end if;
      return null;
    end if;
    if tg_op = 'UPDATE' and old.status is null and new.owner is distinct from old.owner then perform ledger_take_request(held, 'takes over'); end if;
    if new.status is null then
      insert into ledger_requests values (new.key_id, new.key, ledger_process(), ledger_now())
        on conflict (key_id, key) do update set process = excluded.process, renewed_at = excluded.renewed_at;
    end if;
    return null;
  end $$;
  create trigger ledger_of_requests after insert or update or delete on idempotency_records for each row execute function ledger_of_requests();

  create function ledger_of_events() returns trigger language plpgsql as $$
  begin
    perform ledger_check(new.job_id, 'the event ' || new.type);
    return null;
  end $$;
  create trigger ledger_of_events after insert on job_events for each row
    when (new.type in ('training_started', 'gradient_step', 'held_out', 'warning', 'training_ended', 'job_ended')) execute function ledger_of_events();
`;
