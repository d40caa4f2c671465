import type { Task } from '@a2a-js/sdk';
import {
  type AbandonedTurn,
  EFFECTS_METADATA_KEY,
  RECOVERY_METADATA_KEY,
  type RecoveryDecision,
  type RecoveryPolicy,
} from 'nestjs-a2a-cluster';
import { getTask } from '../../tools/harness/client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { eventually } from '../../tools/harness/wait.js';
import {
  begin,
  DEAD,
  agentWhoseReplicaDies,
  hang,
  historyOf,
  RecoveryFixture,
  reExecuting,
  statusText,
  sweep,
} from './abandoned-turns.fixture.js';
import { type AgentBehaviour, type ClusterOptions } from './agent-app.fixture.js';
import { publishStatus, textOf, working } from './agent-events.js';

const fixture = new RecoveryFixture();
const { leases } = fixture;

describe('A policy that is a function', () => {
  const asked: AbandonedTurn[] = [];
  beforeEach(() => asked.splice(0));

  const deciding =
    (decide: (turn: AbandonedTurn) => unknown): RecoveryPolicy =>
    (turn) => {
      asked.push({ ...turn, task: structuredClone(turn.task) });
      return decide(turn) as RecoveryDecision;
    };

  test('is asked with all that is known: task, agent, attempts, last holder and heartbeat, unresolved effects', async () => {
    let key = '';
    const agent: AgentBehaviour = {
      execute: async (context, bus) => {
        working(bus, context);
        await context.turn.effect('done', { replay: 'never' }, () => 1);
        await context.turn.effect('charge', { replay: 'never' }, async (call) => {
          key = call.idempotencyKey;
          await hang();
        });
      },
    };
    const { b, atA, id } = await fixture.abandoned(agent, {
      cluster: reExecuting({ policy: deciding(() => ({ decision: 'fail' })), maxAttempts: 5 }, { agentId: 'biller' }),
      once: () => eventually(() => key !== ''),
    });
    expect(await sweep(b)).toMatchObject({ claimed: 1, failed: 1 });
    const [turn] = asked;
    expect(turn).toEqual({
      task: expect.objectContaining({ id }) as Task,
      agentId: 'biller',
      attempts: 1,
      maxAttempts: 5,
      lastHolder: DEAD,
      lastHeartbeat: expect.any(Date) as Date,
      unresolvedEffects: [
        { key: 'charge', replay: 'never', attempt: 1, dispatchedAt: expect.any(Date) as Date, idempotencyKey: key },
      ],
    });
    expect(stateName(turn!.task)).toBe('WORKING');
    expect(Math.abs(Date.now() - 60_000 - turn!.lastHeartbeat.getTime())).toBeLessThan(20_000);
    const { status } = await getTask(atA, id);
    expect(status?.message?.metadata).toMatchObject({
      [RECOVERY_METADATA_KEY]: { lastHolder: DEAD, attempts: 1, lastHeartbeat: turn!.lastHeartbeat.toISOString() },
      [EFFECTS_METADATA_KEY]: [{ key: 'charge', replay: 'never', attempt: 1, idempotencyKey: key }],
    });
    expect(textOf(status?.message)).toMatch(new RegExp(`${DEAD}.*'charge'`));
  });

  test.each<[string, (turn: AbandonedTurn) => unknown, RegExp]>([
    ['fail', () => ({ decision: 'fail' }), /is gone: dead-replica/],
    ['fail with a message', () => ({ decision: 'fail', message: 'no agent today' }), /^no agent today$/],
    ['fail, later', () => Promise.resolve({ decision: 'fail', message: 'no agent today' }), /^no agent today$/],
  ])('%s: FAILED, and nobody runs it', async (_what, decide, text) => {
    const agent = agentWhoseReplicaDies();
    const [a, b] = await fixture.startTwo({ ...agent, cluster: reExecuting({ policy: deciding(decide) }) });
    const { id } = await begin(await a.client());
    const subscriber = Recording.subscribe(await b.client(), id);
    await subscriber.task();
    await leases.abandon(id);
    expect(await sweep(b)).toMatchObject({ failed: 1 });
    expect((await subscriber.finished()).map(summaryOf).at(-1)).toBe('status FAILED');
    expect(statusText(await getTask(await a.client(), id))).toMatch(text);
    expect(agent.attempts).toHaveLength(1);
    expect(fixture.logger.errors).toEqual([]);
  });

  test.each(['at once', 'later'])('re-execute, %s: it is run again, until its attempts are used up', async (when) => {
    const agent = agentWhoseReplicaDies(() => hang());
    const decision = { decision: 're-execute' };
    const decide = () => (when === 'at once' ? decision : Promise.resolve(decision));
    const cluster = reExecuting({ policy: deciding(decide), maxAttempts: 2 });
    const { a, b, atA, id } = await fixture.abandoned(agent, { cluster });
    expect(await sweep(b)).toMatchObject({ reExecuted: 1 });
    await eventually(() => agent.attempts.length === 2);
    await leases.abandon(id);
    expect(await sweep(a)).toMatchObject({ failed: 1 });
    expect(asked.map(({ attempts }) => attempts)).toEqual([1, 2]);
    expect(statusText(await getTask(atA, id))).toContain('It was run 2 times, and is not run again');
  });

  test('leave: the lease is put back as it was found, and it is asked again once that is due', async () => {
    const agent = agentWhoseReplicaDies();
    const decisions = ['leave', 'leave', 're-execute'];
    const policy = deciding(() => ({ decision: decisions.shift() }));
    const { a, b, atA, id } = await fixture.abandoned(agent, {
      cluster: reExecuting({ policy, intervalMs: 3_600_000 }),
    });
    const before = (await leases.find(id))!;
    for (const app of [b, a]) {
      expect(await sweep(app)).toMatchObject({ claimed: 1, left: 1 });
      const left = (await leases.find(id))!;
      expect(left).toMatchObject({ holder: DEAD, attempt: 1, expired: false });
      expect(left.generation).toBeGreaterThan(before.generation);
      expect(Math.abs(Date.parse(left.renewedAt) - Date.parse(before.renewedAt))).toBeLessThan(2);
      expect(left.expiresInMs).toBeGreaterThan(3_500_000);
      expect(await sweep(app)).toMatchObject({ claimed: 0 });
      await leases.due(id);
    }
    expect(await sweep(b)).toMatchObject({ reExecuted: 1 });
    await leases.gone();
    expect(asked.map(({ attempts, lastHolder }) => [attempts, lastHolder])).toEqual(Array(3).fill([1, DEAD]));
    expect(new Set(asked.map(({ lastHeartbeat }) => lastHeartbeat.getTime())).size).toBe(1);
    expect(agent.attempts).toEqual(['work 1', 'work 2']);
    expect(stateName(await getTask(atA, id))).toBe('COMPLETED');
  });

  test.each<[string, (turn: AbandonedTurn) => unknown]>([
    [
      'throws',
      () => {
        throw new Error('no idea');
      },
    ],
    ['rejects', () => Promise.reject(new Error('no idea'))],
    ['returns nothing', () => undefined],
    ['returns null', () => null],
    ['returns a word', () => 're-execute'],
    ['returns an unknown decision', () => ({ decision: 'retry' })],
    ['returns what cannot be shown', () => ({ decision: 1n })],
    ['never decides', () => hang()],
  ])('one that %s is logged, and the task is FAILED', async (what, decide) => {
    const agent = agentWhoseReplicaDies();
    const cluster: ClusterOptions = reExecuting({ policy: deciding(decide) });
    if (what === 'never decides') cluster.leases = { heartbeatIntervalMs: 200, ttlMs: 1_500 };
    const { b, atA, id } = await fixture.abandoned(agent, { cluster });
    expect(await sweep(b)).toMatchObject({ claimed: 1, failed: 1, errors: 0 });
    const task = await getTask(atA, id);
    expect([stateName(task), agent.attempts]).toEqual(['FAILED', ['work 1']]);
    expect(statusText(task)).toContain(DEAD);
    expect(fixture.logger.errors).toEqual([expect.stringContaining(`recovery policy failed for task ${id}`)]);
    expect(asked).toHaveLength(1);
  });

  test('one that changes the task it is shown changes nothing', async () => {
    const agent = agentWhoseReplicaDies();
    const policy = deciding(({ task }) => {
      task.history.splice(0);
      task.status = undefined;
      return { decision: 'fail', message: 'no' };
    });
    const { b, atA, id } = await fixture.abandoned(agent, { cluster: reExecuting({ policy }) });
    await sweep(b);
    expect(historyOf(await getTask(atA, id))).toEqual(['work', 'no']);
  });

  test('is not asked about a turn that is to be canceled, nor about one whose task waits', async () => {
    const policy = deciding(() => ({ decision: 're-execute' }));
    const [a, b] = await fixture.startTwo({
      execute: async (context, bus) => {
        publishStatus(bus, context, textOf(context.userMessage) === 'auth' ? 8 : 2);
        await context.turn.flush();
        await hang();
      },
      cluster: reExecuting({ policy }),
    });
    const atA = await a.client();
    const [waiting, canceled] = [await begin(atA, 'auth'), await begin(atA)];
    await leases.abandon(waiting.id, canceled.id);
    await leases.flagCancel(canceled.id);
    expect(await sweep(b)).toMatchObject({ claimed: 2, dropped: 1, canceled: 1 });
    expect(asked).toEqual([]);
    expect([stateName(await getTask(atA, waiting.id)), stateName(await getTask(atA, canceled.id))]).toEqual([
      'AUTH_REQUIRED',
      'CANCELED',
    ]);
  });
});
