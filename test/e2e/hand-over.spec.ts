import { ReplicaShutdownError } from 'nestjs-a2a-cluster';
import { getTask, send } from '../../tools/harness/client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { Deferred, eventually, within } from '../../tools/harness/wait.js';
import {
  agentByAttempt,
  draining,
  artifactsOf,
  begin,
  ended,
  hang,
  hangsAfterWorking,
  historyOf,
  RecoveryFixture,
  runOf,
  type Run,
  statusText,
  sweep,
  updatesIn,
} from './abandoned-turns.fixture.js';
import { TRANSPORTS } from './agent-app.fixture.js';
import { artifactOf, completed, inputRequired, publishArtifact, textOf, textPart } from './agent-events.js';
import { lastTaskId } from '../helpers/task-log.js';

const fixture = new RecoveryFixture();
const { leases } = fixture;

describe.each(TRANSPORTS)('A replica that shuts down under a policy that runs turns again, over %s', (transport) => {
  test('hands a turn that outlasts the drain over: the same attempt goes on elsewhere, what the old one says is dropped', async () => {
    const [resume, over, reason] = [new Deferred(), new Deferred(), new Deferred<unknown>()];
    const runs: Run[] = [];
    const a = await fixture.start({
      cluster: draining(),
      execute: async (context, bus) => {
        runs.push(runOf(context));
        publishArtifact(bus, context, artifactOf('out', textPart('one')));
        await context.turn.flush();
        context.turn.signal.addEventListener('abort', () => reason.resolve(context.turn.signal.reason));
        await resume.promise;
        publishArtifact(bus, context, artifactOf('out', textPart('late')), true);
        completed(bus, context, 'late');
        over.resolve();
      },
    });
    const b = await fixture.start({
      cluster: draining(),
      execute: (context, bus) => {
        runs.push(runOf(context));
        publishArtifact(bus, context, artifactOf('out', textPart('uno')), true);
        publishArtifact(bus, context, artifactOf('out', textPart('dos')), true);
        completed(bus, context, 'done');
      },
    });
    const atB = await b.client({ transport });
    const { id } = await begin(await a.client({ transport }), 'hello');
    const subscriber = Recording.subscribe(atB, id);
    await subscriber.waitFor(
      (response) => summaryOf(response).startsWith('artifact') || summaryOf(response) === 'task SUBMITTED',
    );
    const before = (await leases.find(id))!;
    await a.close();
    expect(await reason.promise).toBeInstanceOf(ReplicaShutdownError);
    const handed = (await leases.find(id))!;
    expect(handed).toMatchObject({ holder: null, attempt: 0, expired: true, turnId: before.turnId });
    expect(handed.generation).toBeGreaterThan(before.generation);
    expect(stateName(await getTask(atB, id))).toBe('SUBMITTED');
    expect(await sweep(b)).toMatchObject({ claimed: 1, reExecuted: 1, postponed: 0 });
    const responses = await subscriber.finished();
    expect(summaryOf(responses.at(-1)!)).toBe('status COMPLETED');
    expect(updatesIn(responses).slice(-2)).toEqual(['out = uno', 'out + dos']);
    resume.resolve();
    await over.promise;
    const task = await getTask(atB, id);
    expect([stateName(task), historyOf(task), artifactsOf(task)]).toEqual([
      'COMPLETED',
      ['hello', 'done'],
      { out: ['uno', 'dos'] },
    ]);
    expect(runs.map(({ attempt }) => attempt)).toEqual([1, 1]);
    expect(runs[1]!.key).toBe(runs[0]!.key);
    expect(runs[1]!.message).toEqual(runs[0]!.message);
    await leases.gone();
  });

  test('begins a turn that had published nothing, and hands it over: the message is not lost', async () => {
    const started = new Deferred();
    const a = await fixture.start({
      cluster: draining(),
      execute: () => {
        started.resolve();
        return hang();
      },
    });
    const b = await fixture.start({ cluster: draining(), execute: (context, bus) => completed(bus, context) });
    const answer = send(await a.client({ transport }), 'hello').catch((error: Error) => error);
    await started.promise;
    await a.close();
    const id = await lastTaskId(fixture.database);
    const atB = await b.client({ transport });
    const begun = await getTask(atB, id);
    expect([stateName(begun), historyOf(begun)]).toEqual(['SUBMITTED', ['hello']]);
    expect(await leases.find(id)).toMatchObject({ holder: null, attempt: 0, expired: true });
    expect(await within(answer, 5_000, 'the sender is told')).toBeInstanceOf(Error);
    expect(await sweep(b)).toMatchObject({ reExecuted: 1 });
    const task = await ended(atB, id);
    expect([stateName(task), historyOf(task)]).toEqual(['COMPLETED', ['hello']]);
  });
});

describe('A hand-over', () => {
  test('O35 does not count as an attempt, however often; a crash after it does', async () => {
    const agent = agentByAttempt(
      async (context, bus) => {
        if (agent.runs.length < 4) return hangsAfterWorking(context, bus);
        completed(bus, context);
      },
      () => hang(),
    );
    const options = { ...agent, cluster: draining({ maxAttempts: 1 }) };
    const [a, b, c, d] = [...(await fixture.startTwo(options)), ...(await fixture.startTwo(options))];
    const { id } = await begin(await a.client());
    const crashed = await begin(await d.client());
    await eventually(() => agent.runs.length === 2);
    for (const [from, to] of [
      [a, b],
      [b, c],
    ] as const) {
      const count = agent.runs.length;
      await from.close();
      expect(await leases.find(id)).toMatchObject({ holder: null, attempt: 0, expired: true });
      expect(await sweep(to)).toMatchObject({ claimed: 1, reExecuted: 1 });
      await eventually(() => agent.runs.length === count + 1);
    }
    expect(stateName(await ended(await c.client(), id))).toBe('COMPLETED');
    expect(agent.runs.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1]);
    await leases.abandon(crashed.id);
    expect(await sweep(c)).toMatchObject({ failed: 1 });
    expect(statusText(await getTask(await c.client(), crashed.id))).toContain('It was run 1 times');
  });

  test('O35 a turn that was handed over and whose next replica dies is in its second attempt', async () => {
    const agent = agentByAttempt(hangsAfterWorking, (context, bus) => completed(bus, context));
    const { b, atB, id } = await fixture.handedOver(agent, draining({ backoffMs: 0 }));
    await sweep(b);
    await eventually(() => agent.runs.length === 2);
    await leases.abandon(id);
    await sweep(b);
    expect(stateName(await ended(atB, id))).toBe('COMPLETED');
    expect(agent.runs.map(({ attempt }) => attempt)).toEqual([1, 1, 2]);
  });

  test('of a follow-up whose executor had said nothing: its message goes on elsewhere', async () => {
    const agent = agentByAttempt(async (context, bus) => {
      if (!context.task) return inputRequired(bus, context, 'which?');
      if (agent.runs.length === 2) await hang();
      completed(bus, context, `got ${textOf(context.userMessage)}`);
    });
    const [a, b] = await fixture.startTwo({ ...agent, cluster: draining() });
    const [atA, atB] = [await a.client(), await b.client()];
    const { id } = await send(atA, 'hello');
    const answer = send(atA, 'this', { taskId: id }).catch((error: Error) => error);
    await eventually(() => agent.runs.length === 2);
    await a.close();
    expect(await within(answer, 5_000, 'the sender is told')).toBeInstanceOf(Error);
    expect(stateName(await getTask(atB, id))).toBe('INPUT_REQUIRED');
    expect(await sweep(b)).toMatchObject({ reExecuted: 1, dropped: 0 });
    const task = await ended(atB, id);
    expect(historyOf(task)).toEqual(['hello', 'which?', 'this', 'got this']);
  });

  test('is claimed by a follow-up too, which is then refused', async () => {
    const agent = agentByAttempt(async (context, bus) => {
      if (agent.runs.length === 1) return hangsAfterWorking(context, bus);
      await over.promise;
      completed(bus, context);
    });
    const over = new Deferred();
    const { atB, id } = await fixture.handedOver(agent);
    await expect(send(atB, 'more', { taskId: id })).rejects.toThrow(/being worked on/);
    await eventually(() => agent.runs.length === 2);
    over.resolve();
    expect(historyOf(await ended(atB, id))).toEqual(['work']);
  });
});
