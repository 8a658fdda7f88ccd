/**
 * Makes a schema note who writes to a job without its claim. A worker that has lost a job does as a rule what the next one does too, so that what it writes looks
 * like an event that was told twice: only the database knows whose connection it came from, by the `application_name` of each process.
 */
export const LEDGER = `
  create table ledger_claims (job_id text primary key, slot text not null);
  create table ledger_intrusions (what text not null);

  -- Processes of one slot follow one another: the next one may take up what the one before it held.
  create function ledger_slot() returns text language sql stable as
    $$ select split_part(current_setting('application_name'), '.', 1) $$;

  create function ledger_check(job text, what text) returns void language plpgsql as $$
  declare holder text := (select slot from ledger_claims where job_id = job);
  begin
    if holder is distinct from ledger_slot() then
      insert into ledger_intrusions values (format('%s: %s of job %s, which %s holds', ledger_slot(), what, job, coalesce(holder, 'nobody')));
    end if;
  end $$;

  create function ledger_of_jobs() returns trigger language plpgsql as $$
  begin
    if new.fencing_token > old.fencing_token then
      insert into ledger_claims values (new.id, ledger_slot()) on conflict (job_id) do update set slot = excluded.slot;
      return null;
    end if;
    if new.snapshot_key is distinct from old.snapshot_key then perform ledger_check(new.id, 'a snapshot'); end if;
    if new.status = 'succeeded' then perform ledger_check(new.id, 'the end'); end if;
    if old.status = 'running' and new.lease_expires_at > old.lease_expires_at then perform ledger_check(new.id, 'a renewal'); end if;
    -- What has HTTP pauses jobs of others.
    if old.status = 'running' and new.status = 'queued' and ledger_slot() like 'trainer%' then perform ledger_check(new.id, 'the release'); end if;
    if new.status <> 'running' then delete from ledger_claims where job_id = new.id; end if;
    return null;
  end $$;
  create trigger ledger_of_jobs after update on jobs for each row execute function ledger_of_jobs();

  create function ledger_of_events() returns trigger language plpgsql as $$
  begin
    perform ledger_check(new.job_id, 'the event ' || new.type);
    return null;
  end $$;
  create trigger ledger_of_events after insert on job_events for each row
    when (new.type in ('training_started', 'gradient_step', 'warning', 'training_ended', 'job_ended')) execute function ledger_of_events();
`;
