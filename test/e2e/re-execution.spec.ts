import { randomUUID } from 'node:crypto';
import { LeaseLostError, TurnRequestContext } from 'nestjs-a2a-cluster';
import { getTask, send, userMessage } from '../../tools/harness/client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { Deferred, within } from '../../tools/harness/wait.js';
import {
  artifactsOf,
  begin,
  agentByAttempt,
  ended,
  hang,
  historyOf,
  RecoveryFixture,
  reExecuting,
  sweep,
  UNAWARE,
  updatesIn,
} from './abandoned-turns.fixture.js';
import { type AgentBehaviour, TRANSPORTS } from './agent-app.fixture.js';
import { artifactOf, completed, inputRequired, publishArtifact, textOf, textPart, working } from './agent-events.js';
import { readLog } from '../helpers/task-log.js';

const fixture = new RecoveryFixture();
const { leases } = fixture;

const versionsOf = async (taskId: string): Promise<number[]> =>
  (await readLog(fixture.database, taskId)).entries.map(({ version }) => version);

const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);

describe.each(TRANSPORTS)('O36 a turn that is run again, over %s', (transport) => {
  test('of a new task: the same message, key and task, each chunk once, told so to who was there all along', async () => {
    const [subscribed, chunks] = [new Deferred(), new Deferred()];
    const agent = agentByAttempt(
      async (context, bus) => {
        working(bus, context);
        await subscribed.promise;
        publishArtifact(bus, context, artifactOf('out', textPart('one')));
        publishArtifact(bus, context, artifactOf('out', textPart('two')), true);
        publishArtifact(bus, context, artifactOf('left', textPart('alone')));
        await context.turn.flush();
        chunks.resolve();
        await hang();
      },
      (context, bus) => {
        working(bus, context);
        publishArtifact(bus, context, artifactOf('out', textPart('uno')), true);
        publishArtifact(bus, context, artifactOf('out', textPart('dos')), true);
        completed(bus, context, 'done');
      },
    );
    const [a, b] = await fixture.startTwo({ ...agent, cluster: reExecuting() });
    const [atA, atB] = [await a.client({ transport }), await b.client({ transport })];
    const sender = Recording.send(atA, 'hello', { messageId: randomUUID() });
    const { id } = await sender.task();
    const subscriber = Recording.subscribe(atB, id);
    await subscriber.task();
    subscribed.resolve();
    await within(chunks.promise, 5_000, 'the chunks are stored');
    const before = await getTask(atB, id);
    await leases.abandon(id);
    expect(await sweep(b)).toMatchObject({ claimed: 1, reExecuted: 1, failed: 0, errors: 0 });
    for (const recording of [sender, subscriber]) {
      const responses = await recording.finished();
      expect(updatesIn(responses)).toEqual(['out = one', 'out + two', 'left = alone', 'out = uno', 'out + dos']);
      expect(summaryOf(responses.at(-1)!)).toBe('status COMPLETED');
    }
    const task = await getTask(atA, id);
    expect(artifactsOf(task)).toEqual({ out: ['uno', 'dos'], left: ['alone'] });
    expect(historyOf(task)).toEqual(['hello', 'done']);
    const [first, second] = agent.runs;
    expect([first!.attempt, second!.attempt]).toEqual([1, 2]);
    expect(first!.task).toBeUndefined();
    expect(second!.task).toEqual(before);
    expect(artifactsOf(second!.task!)).toEqual({ out: ['one', 'two'], left: ['alone'] });
    expect(second!.key).toBe(first!.key);
    expect(second!.message).toEqual(first!.message);
    expect(second!.context.request).toEqual(first!.context.request);
    expect(second!.context.contextId).toBe(first!.context.contextId);
    expect(second!.context.turn.fencingToken!).toBeGreaterThan(first!.context.turn.fencingToken!);
    expect(second!.context).toBeInstanceOf(TurnRequestContext);
    expect(await versionsOf(id)).toEqual(upTo(9));
    expect(await leases.find(id)).toBeUndefined();
  });

  test('of a follow-up, twice: what an earlier turn left of an artifact is kept, and what dead attempts added is not', async () => {
    const agent = agentByAttempt(
      async (context, bus) => {
        if (!context.task) {
          publishArtifact(bus, context, artifactOf('doc', textPart('title')));
          return inputRequired(bus, context, 'which?');
        }
        working(bus, context);
        publishArtifact(bus, context, artifactOf('doc', textPart('dead')), true);
        publishArtifact(bus, context, artifactOf('doc', textPart('too')), true);
        publishArtifact(bus, context, artifactOf('new', textPart('dead')), true);
        await context.turn.flush();
        await hang();
      },
      async (context, bus) => {
        publishArtifact(bus, context, artifactOf('doc', textPart('second')), true);
        publishArtifact(bus, context, artifactOf('doc', textPart('again')), true);
        await context.turn.flush();
        await hang();
      },
      (context, bus) => {
        publishArtifact(bus, context, artifactOf('doc', textPart('third')), true);
        publishArtifact(bus, context, artifactOf('doc', textPart('end')), true);
        publishArtifact(bus, context, artifactOf('new', textPart('alive')), true);
        completed(bus, context);
      },
    );
    const [a, b] = await fixture.startTwo({ ...agent, cluster: reExecuting() });
    const [atA, atB] = [await a.client({ transport }), await b.client({ transport })];
    const other = await send(atB, 'another task');
    const { id, contextId } = await send(atA, 'hello');
    const subscriber = Recording.subscribe(atB, id);
    await subscriber.task();
    const message = { ...userMessage('this', { taskId: id, contextId }), referenceTaskIds: [other.id] };
    message.metadata = { note: 1 };
    const configuration = {
      acceptedOutputModes: ['text/plain'],
      taskPushNotificationConfig: undefined,
      returnImmediately: true,
    };
    await atA.sendMessage({ tenant: '', message, configuration, metadata: { request: 2 } });
    await subscriber.waitFor((response) => updatesIn([response])[0] === 'new + dead');
    await leases.abandon(id);
    expect(await sweep(b)).toMatchObject({ claimed: 1, reExecuted: 1 });
    await subscriber.waitFor((response) => updatesIn([response])[0] === 'doc + again');
    await leases.abandon(id);
    expect(await sweep(a)).toMatchObject({ claimed: 1, reExecuted: 1 });
    const responses = await subscriber.finished();
    expect(updatesIn(responses)).toEqual([
      'doc + dead',
      'doc + too',
      'new + dead',
      'doc = title,second',
      'doc + again',
      'doc = title,third',
      'doc + end',
      'new = alive',
    ]);
    const task = await getTask(atB, id);
    expect(artifactsOf(task)).toEqual({ doc: ['title', 'third', 'end'], new: ['alive'] });
    expect(historyOf(task)).toEqual(['hello', 'which?', 'this']);
    const turns = agent.runs.slice(2);
    expect(turns.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    expect(new Set(turns.map(({ key }) => key)).size).toBe(1);
    for (const { context, message: seen, task: given } of turns) {
      expect(seen).toEqual(turns[0]!.message);
      expect(seen).toMatchObject({ messageId: message.messageId, metadata: { note: 1 } });
      expect(context.request).toMatchObject({ metadata: { request: 2 }, configuration: { returnImmediately: true } });
      expect(context.referenceTasks).toEqual([other]);
      expect(historyOf(given!)).toEqual(['hello', 'which?', 'this']);
    }
    expect(artifactsOf(turns[2]!.task!)).toEqual({ doc: ['title', 'second', 'again'], new: ['dead'] });
  });

  test('O49 a follow-up whose executor had said nothing: its message is not lost, and its sender gets no old state', async () => {
    const reached = new Deferred();
    const agent = agentByAttempt(
      async (context, bus) => {
        if (!context.task) return inputRequired(bus, context, 'which?');
        reached.resolve();
        await hang();
      },
      (context, bus) => completed(bus, context, `got ${textOf(context.userMessage)}`),
    );
    const [a, b] = await fixture.startTwo({ ...agent, cluster: reExecuting() });
    const atA = await a.client({ transport });
    const { id } = await send(atA, 'hello');
    const answer = send(atA, 'this', { taskId: id });
    await within(reached.promise, 5_000, 'the follow-up runs');
    await leases.abandon(id);
    expect(await sweep(b)).toMatchObject({ claimed: 1, reExecuted: 1, dropped: 0 });
    const task = await within(answer, 5_000, 'the blocking send is answered');
    expect([stateName(task), historyOf(task)]).toEqual(['COMPLETED', ['hello', 'which?', 'this', 'got this']]);
    expect(agent.runs.map(({ attempt }) => attempt)).toEqual([1, 1, 2]);
    expect(stateName(agent.runs[2]!.task!)).toBe('INPUT_REQUIRED');
  });
});

describe('O36 the first attempt, which was only slow', () => {
  test.each(['while the second runs', 'after it has ended'])('is refused what it says %s', async (when) => {
    const [resume, seen, second, finish] = [new Deferred(), new Deferred<unknown>(), new Deferred(), new Deferred()];
    const slow: AgentBehaviour = {
      execute: async (context, bus) => {
        working(bus, context);
        await context.turn.flush();
        await resume.promise;
        publishArtifact(bus, context, artifactOf('out', textPart('late')));
        completed(bus, context, 'late');
        await context.turn.flush().catch((error: unknown) => seen.resolve(error));
        seen.resolve(context.turn.signal.reason);
      },
    };
    const a = await fixture.start({ ...slow, cluster: reExecuting({}, UNAWARE) });
    const b = await fixture.start({
      cluster: reExecuting(),
      execute: async (context, bus) => {
        publishArtifact(bus, context, artifactOf('out', textPart('own')));
        await context.turn.flush();
        second.resolve();
        await finish.promise;
        completed(bus, context, 'in time');
      },
    });
    const { id } = await begin(await a.client(), 'hello');
    await leases.abandon(id);
    await sweep(b);
    await within(second.promise, 5_000, 'the second attempt runs');
    if (when === 'while the second runs') {
      resume.resolve();
      expect(await within(seen.promise, 5_000, 'the first attempt is refused')).toBeInstanceOf(LeaseLostError);
      finish.resolve();
    } else {
      finish.resolve();
      await ended(await b.client(), id);
      resume.resolve();
      expect(await within(seen.promise, 5_000, 'the first attempt is refused')).toBeInstanceOf(LeaseLostError);
    }
    const task = await ended(await b.client(), id);
    expect([stateName(task), artifactsOf(task), historyOf(task)]).toEqual([
      'COMPLETED',
      { out: ['own'] },
      ['hello', 'in time'],
    ]);
    expect(await versionsOf(id)).toEqual(upTo(4));
  });

  test('on the very replica that runs the second is stopped', async () => {
    const aborted = new Deferred<unknown>();
    const agent = agentByAttempt(
      async (context, bus) => {
        working(bus, context);
        await context.turn.flush();
        context.turn.signal.addEventListener('abort', () => aborted.resolve(context.turn.signal.reason));
        await hang();
      },
      (context, bus) => completed(bus, context),
    );
    const app = await fixture.start({ ...agent, cluster: reExecuting() });
    const { id } = await begin(await app.client(), 'hello');
    await leases.abandon(id);
    await sweep(app);
    expect(stateName(await ended(await app.client(), id))).toBe('COMPLETED');
    expect(await within(aborted.promise, 5_000, 'the first attempt is stopped')).toBeInstanceOf(LeaseLostError);
  });
});
