import { ForbiddenException, UnauthorizedException } from '@nestjs/common';
import { status } from '@grpc/grpc-js';
import { A2AGrpcServer } from 'nestjs-a2a-cluster';
import { cancel, collect, errorName, getTask, send, stream, subscribe } from '../../tools/harness/client.js';
import { RawGrpcClient } from '../helpers/raw-grpc-client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { Deferred } from '../../tools/harness/wait.js';
import { type AgentApp, AgentAppFixture, type AgentBehaviour } from './agent-app.fixture.js';
import { completed, inputRequired, textOf } from './agent-events.js';
import { patientAgent, targetOf, withGrpc } from './grpc.fixture.js';
import { cardOf } from './raw-requests.js';

const fixture = new AgentAppFixture();

const agent: AgentBehaviour = {
  execute: (context, bus) =>
    textOf(context.userMessage) === 'end' ? completed(bus, context) : inputRequired(bus, context),
};

describe('gRPC', () => {
  test('is off unless it is asked for', async () => {
    const app = await fixture.start(agent);
    expect(app.nest.get(A2AGrpcServer, { strict: false }).port).toBeUndefined();
    expect((await cardOf(app)).supportedInterfaces.map(({ protocolBinding }) => protocolBinding)).toEqual([
      ...['JSONRPC', 'HTTP+JSON'],
    ]);
  });

  test('stands in the card, at the port that was found or where the option says', async () => {
    const app = await fixture.start(withGrpc(agent));
    const interfaceOf = async (it: AgentApp): Promise<unknown> => (await cardOf(it)).supportedInterfaces.at(-1);
    expect(await interfaceOf(app)).toMatchObject({
      ...{ url: targetOf(app), protocolBinding: 'GRPC', protocolVersion: '1.0' },
    });
    const behind = await fixture.start(withGrpc(agent, { publicUrl: 'agent.example.com:443' }));
    expect(await interfaceOf(behind)).toMatchObject({ url: 'agent.example.com:443', protocolBinding: 'GRPC' });
  });

  test('serves every operation, the other transports beside it', async () => {
    const capabilities = { streaming: true, pushNotifications: true, extendedAgentCard: true, extensions: [] };
    const agentCard = { name: 'n', description: 'd', version: '1', capabilities };
    const app = await fixture.start(
      withGrpc({
        ...agent,
        cluster: { agentCard, push: { allow: ['127.0.0.0/8'] }, extendedAgentCard: { name: 'more' } as never },
      }),
    );
    const client = await app.client({ transport: 'GRPC', user: 'alice' });
    const { id: taskId } = await send(client, 'hello');
    const subscriber = Recording.subscribe(client, taskId);
    await subscriber.task();
    const answers = await collect(stream(client, 'end', { taskId }));
    expect(answers.map(summaryOf)).toEqual(['task INPUT_REQUIRED', 'status COMPLETED']);
    expect((await subscriber.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
    const other = await send(client, 'hello');
    expect(stateName(await cancel(client, other.id))).toBe('CANCELED');
    const listed = await client.listTasks({
      ...{ tenant: '', contextId: '', status: 0, pageToken: '', pageSize: undefined, historyLength: undefined },
      ...{ statusTimestampAfter: undefined, includeArtifacts: undefined },
    });
    expect(listed.tasks.map(({ id }) => id)).toEqual([other.id, taskId]);
    const config = { tenant: '', taskId, id: 'c', url: 'http://127.0.0.1/', token: '', authentication: undefined };
    expect(await client.createTaskPushNotificationConfig(config)).toMatchObject({ id: 'c' });
    const named = { tenant: '', taskId, id: 'c' };
    expect(await client.getTaskPushNotificationConfig(named)).toMatchObject({ url: config.url });
    await client.deleteTaskPushNotificationConfig(named);
    const all = { tenant: '', taskId, pageSize: 0, pageToken: '' };
    expect((await client.listTaskPushNotificationConfig(all)).configs).toEqual([]);
    const card = await client.transport.getExtendedAgentCard(
      { tenant: '' },
      { serviceParameters: { 'A2A-Version': '1.0' } },
    );
    expect(card.name).toBe('more');
    expect(stateName(await getTask(await app.client({ user: 'alice' }), taskId))).toBe('COMPLETED');
  });

  test('a task that is sent at A is followed, seen and canceled at B', async () => {
    const { options } = patientAgent();
    const aborted = new Deferred<unknown>();
    const [a, b] = await fixture.startTwo(
      withGrpc({
        execute: (context, bus) => {
          context.turn.signal.addEventListener('abort', () => aborted.resolve(context.turn.signal.reason));
          return options.execute?.(context, bus);
        },
      }),
    );
    const sender = Recording.send(await a.client({ transport: 'GRPC' }), 'hello');
    const { id } = await sender.task();
    const there = await b.client({ transport: 'GRPC' });
    const subscriber = Recording.subscribe(there, id);
    await subscriber.task();
    expect(stateName(await cancel(there, id))).toBe('CANCELED');
    for (const recording of [sender, subscriber]) {
      expect((await recording.finished()).map(summaryOf).at(-1)).toBe('status CANCELED');
    }
    expect(await aborted.promise).toMatchObject({ code: 'A2A_TASK_CANCELED' });
    expect(stateName(await getTask(there, id))).toBe('CANCELED');
  });
});

describe('Callers over gRPC', () => {
  test("do not find each other's tasks, and are the same as over HTTP", async () => {
    const app = await fixture.start(withGrpc(agent));
    const alice = await app.client({ transport: 'GRPC', user: 'alice' });
    const { id } = await send(alice, 'mine');
    for (const other of [await app.client({ transport: 'GRPC', user: 'mallory' }), await app.client()]) {
      const calls = [getTask(other, id), cancel(other, id), send(other, 'yours', { taskId: id })];
      for (const call of [...calls, subscribe(other, id)]) expect(await errorName(call)).toBe('TaskNotFoundError');
    }
    expect(stateName(await getTask(await app.client({ user: 'alice' }), id))).toBe('INPUT_REQUIRED');
    expect(stateName(await cancel(alice, id))).toBe('CANCELED');
  });

  test('who are refused get the status, and nothing of what else went wrong', async () => {
    const errors = [new UnauthorizedException('no token'), new ForbiddenException('not you'), new Error('secret')];
    const app = await fixture.start(
      withGrpc(agent, { userBuilder: ({ metadata }: never) => Promise.reject(errors[which(metadata)]!) }),
    );
    const raw = new RawGrpcClient(targetOf(app));
    const failure = async (at: number): Promise<unknown> => {
      const { code, details } = await raw.failure(
        'getTask',
        { tenant: '', id: 'x' },
        { 'a2a-version': '1.0', which: String(at) },
      );
      return [code, details];
    };
    expect(await failure(0)).toEqual([status.UNAUTHENTICATED, 'no token']);
    expect(await failure(1)).toEqual([status.PERMISSION_DENIED, 'not you']);
    expect(await failure(2)).toEqual([status.INTERNAL, 'Internal error; the agent has logged it.']);
    expect(fixture.logger.errors.join()).toContain('secret');
  });

  const which = (metadata: { get(name: string): unknown[] }): number => Number(metadata.get('which')[0]);
});
