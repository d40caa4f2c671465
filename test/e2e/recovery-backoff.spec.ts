import { AbandonedTaskSweeper } from 'nestjs-a2a-cluster';
import { SweepTrigger } from '../../libs/a2a-cluster/src/recovery/sweep-trigger.js';
import { cancel, errorName, getTask, send } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { eventually } from '../../tools/harness/wait.js';
import {
  begin,
  DEAD,
  agentWhoseReplicaDies,
  hang,
  RecoveryFixture,
  reExecuting,
  statusText,
  sweep,
} from './abandoned-turns.fixture.js';

const fixture = new RecoveryFixture();
const { leases } = fixture;

describe('Backoff', () => {
  const due = async (id: string): Promise<number> => (await leases.find(id))!.expiresInMs;

  test('the second attempt waits in a lease without a holder, and is counted when it runs', async () => {
    const agent = agentWhoseReplicaDies(() => hang());
    const [a, b] = await fixture.startTwo({ ...agent, cluster: reExecuting({ backoffMs: 20_000, maxAttempts: 3 }) });
    const { id } = await begin(await a.client());
    for (const attempt of [2, 3]) {
      await leases.abandon(id);
      expect(await sweep(b)).toMatchObject({ claimed: 1, postponed: 1, reExecuted: 0 });
      expect(await leases.find(id)).toMatchObject({ holder: null, attempt: attempt - 1, expired: false });
      const full = 20_000 * 2 ** (attempt - 2);
      expect(await due(id)).toBeGreaterThan(full / 2 - 5_000);
      expect(await due(id)).toBeLessThanOrEqual(full);
      for (const app of [a, b]) expect(await sweep(app)).toMatchObject({ claimed: 0 });
      expect(agent.attempts).toHaveLength(attempt - 1);
      await leases.due(id);
      expect(await sweep(a)).toMatchObject({ claimed: 1, reExecuted: 1, postponed: 0 });
      await eventually(() => agent.attempts.length === attempt);
      expect(await leases.find(id)).toMatchObject({ attempt, expired: false });
    }
    await leases.abandon(id);
    expect(await sweep(b)).toMatchObject({ failed: 1, postponed: 0 });
    expect(agent.attempts).toEqual(['work 1', 'work 2', 'work 3']);
    expect(statusText(await getTask(await a.client(), id))).toContain('It was run 3 times');
  });

  test('varies between a half and the whole, and is never longer than a minute', async () => {
    const agent = agentWhoseReplicaDies();
    const cluster = reExecuting({ backoffMs: 50_000, maxConcurrentRecoveries: 3, maxAttempts: 30 });
    const { b, ids } = await fixture.abandonedEach(agent, Array<string>(12).fill('work'), cluster);
    expect(await sweep(b)).toMatchObject({ claimed: 12, postponed: 12 });
    const waits = await Promise.all(ids.map(due));
    for (const wait of waits) expect(wait > 20_000 && wait <= 50_000).toBe(true);
    expect(new Set(waits.map((wait) => Math.round(wait / 100))).size).toBeGreaterThan(3);
    await leases.abandon(...ids);
    await fixture.database.query('UPDATE a2a_task_leases SET attempt = 25');
    expect(await sweep(b)).toMatchObject({ claimed: 12, postponed: 12 });
    for (const wait of await Promise.all(ids.map(due))) expect(wait > 25_000 && wait <= 60_000).toBe(true);
    await fixture.database.query('DELETE FROM a2a_task_leases');
  });

  test('a turn that waits for its next attempt is canceled, and takes no message', async () => {
    const agent = agentWhoseReplicaDies();
    const cluster = reExecuting({ backoffMs: 20_000 }, { turns: { cancelTimeoutMs: 200 } });
    const { b, atA, id } = await fixture.abandoned(agent, { cluster });
    expect(await sweep(b)).toMatchObject({ postponed: 1 });
    expect(await errorName(send(atA, 'more', { taskId: id }))).toBe('UnsupportedOperationError');
    expect(stateName(await cancel(atA, id))).toBe('CANCELED');
    expect(agent.attempts).toEqual(['work 1']);
    await leases.gone();
  });

  test('the next sweep comes when one is due, and not only at the interval: for each of several', async () => {
    const agent = agentWhoseReplicaDies();
    const cluster = reExecuting({ backoffMs: 400, intervalMs: 3_600_000 });
    const { b } = await fixture.abandonedEach(agent, ['1', '2', '3'], cluster);
    const trigger = b.nest.get<unknown, { tick(): Promise<void> }>(SweepTrigger, { strict: false });
    const { random } = Math;
    const given = [0.99, 0.5, 0];
    Math.random = () => given.shift() ?? random();
    try {
      await trigger.tick();
    } finally {
      Math.random = random;
    }
    expect(b.nest.get(AbandonedTaskSweeper, { strict: false }).nextDueAt).toBeLessThan(Infinity);
    await leases.gone();
    expect(agent.attempts.slice(3).sort()).toEqual(['1 2', '2 2', '3 2']);
    expect(b.nest.get(AbandonedTaskSweeper, { strict: false }).nextDueAt).toBe(Infinity);
  });

  test('the next sweep comes when one is due that a follow-up has found, between two sweeps', async () => {
    const agent = agentWhoseReplicaDies();
    const { atA, atB, id } = await fixture.abandoned(agent, { cluster: reExecuting({ backoffMs: 200 }) });
    expect(await errorName(send(atB, 'more', { taskId: id }))).toBe('UnsupportedOperationError');
    await leases.gone();
    expect(stateName(await getTask(atA, id))).toBe('COMPLETED');
  });

  test('what could not be restored is told at once, of the replica that is gone', async () => {
    const agent = agentWhoseReplicaDies();
    const { b, atA, id } = await fixture.abandoned(agent, {
      cluster: reExecuting({ backoffMs: 20_000 }),
      once: () => fixture.database.query("UPDATE a2a_task_leases SET request = '{'"),
    });
    expect(await sweep(b)).toMatchObject({ claimed: 1, failed: 1, postponed: 0 });
    const text = statusText(await getTask(atA, id));
    expect(text).toContain(DEAD);
    expect(text).toContain('request could not be restored');
  });
});
