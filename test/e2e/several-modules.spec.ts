import { Injectable, Module, type Type } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { A2AClusterModule, type TurnExecutor, type TurnRequestContext } from 'nestjs-a2a-cluster';
import type { Client } from '@a2a-js/sdk/client';
import type { ExecutionEventBus } from '@a2a-js/sdk/server';
import { cancel, clientFor, errorName, getTask, send } from '../../tools/harness/client.js';
import { Recording, stateName } from '../helpers/recording.js';
import { Deferred } from '../../tools/harness/wait.js';
import { type AgentApp, AgentAppFixture, agentOf, type ClusterOptions } from './agent-app.fixture.js';
import { completed, inputRequired, textOf, working } from './agent-events.js';

const fixture = new AgentAppFixture();

describe('Two apps in one process, on one database', () => {
  test('serve the same tasks, and one goes on when the other closes', async () => {
    const [a, b] = await fixture.startTwo({
      execute: (context, bus) => (context.task ? completed(bus, context) : inputRequired(bus, context)),
    });
    const { id: taskId } = await send(await a.client(), 'hello');
    const atB = await b.client({ transport: 'HTTP+JSON' });
    expect(stateName(await getTask(atB, taskId))).toBe('INPUT_REQUIRED');
    await a.close();
    expect(stateName(await send(atB, 'more', { taskId }))).toBe('COMPLETED');
  });
});

describe('Two A2AClusterModules in one app', () => {
  const paths = (name: string) => ({
    transports: {
      jsonRpc: `/${name}/jsonrpc`,
      rest: `/${name}/rest`,
      agentCard: `/${name}/.well-known/agent-card.json`,
    },
  });

  const clients = async (app: AgentApp, transport: 'JSONRPC' | 'HTTP+JSON' = 'JSONRPC'): Promise<[Client, Client]> => [
    // The card is looked for below the URL that is given, so it has to end in a slash.
    await clientFor(`${app.url}/one/`, { transport }),
    await clientFor(`${app.url}/two/`, { transport }),
  ];

  test.each(['JSONRPC', 'HTTP+JSON'] as const)('serve two agents apart, over %s', async (transport) => {
    const app = await fixture.start({
      modules: (given) =>
        ['one', 'two'].map((name) =>
          A2AClusterModule.forRoot({
            ...given,
            ...paths(name),
            agentId: name,
            agentCard: { ...given.agentCard, name },
            executor: agentOf({ execute: (context, bus) => inputRequired(bus, context, `I am ${name}`) }),
          }),
        ),
    });
    const [one, two] = await clients(app, transport);
    expect([(await one.getAgentCard()).name, (await two.getAgentCard()).name]).toEqual(['one', 'two']);
    const tasks = [await send(one, 'hello'), await send(two, 'hello')];
    expect(tasks.map(({ status }) => textOf(status?.message))).toEqual(['I am one', 'I am two']);
    expect(await errorName(getTask(two, tasks[0]!.id))).toBe('TaskNotFoundError');
    expect(await errorName(send(two, 'more', { taskId: tasks[0]!.id }))).toBe('TaskNotFoundError');
    expect(await errorName(cancel(one, tasks[1]!.id))).toBe('TaskNotFoundError');
    expect(
      app.nest
        .get(SchedulerRegistry)
        .getTimeouts()
        .filter((name) => name.includes('a2a')),
    ).toHaveLength(2);
  });

  test.each<[string, ClusterOptions, string]>([
    ['the same agentId and DataSource', paths('two'), 'agentId is "same": another A2AClusterModule of this app'],
    [
      'an equal path',
      { ...paths('one'), agentId: 'two' },
      'transports.jsonRpc is "/one/jsonrpc": another A2AClusterModule',
    ],
    [
      'the same card',
      { transports: { jsonRpc: '/two', rest: false, agentCard: paths('one').transports.agentCard }, agentId: 'two' },
      'transports.agentCard is "/one/.well-known/agent-card.json"',
    ],
  ])('A2 with %s are refused at boot', async (_what, second, says) => {
    const error = await fixture.bootError({
      modules: (given) => [
        A2AClusterModule.forRoot({ ...given, agentId: 'same', ...paths('one') }),
        A2AClusterModule.forRoot({ ...given, agentId: 'same', ...second }),
      ],
    });
    expect(error.message).toContain(says);
  });

  test('each has its own instance of the same executor class, with what its own imports export', async () => {
    @Injectable()
    class Agent implements TurnExecutor {
      constructor(private readonly name: Name) {}

      execute(context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
        completed(bus, context, `I am ${this.name.value}`);
        return Promise.resolve();
      }

      cancelTask(): Promise<void> {
        return Promise.resolve();
      }
    }
    const app = await fixture.start({
      modules: (given) =>
        ['one', 'two'].map((name) =>
          A2AClusterModule.forRoot({
            ...given,
            ...paths(name),
            agentId: name,
            executor: Agent,
            imports: [nameModule(name)],
          }),
        ),
    });
    const tasks = await Promise.all((await clients(app)).map((client) => send(client, 'hello')));
    expect(tasks.map(({ status }) => textOf(status?.message))).toEqual(['I am one', 'I am two']);
  });

  test('O45 a shutdown ends the turns of both', async () => {
    const over = new Deferred();
    const app = await fixture.start({
      modules: (given) =>
        ['one', 'two'].map((name) =>
          A2AClusterModule.forRoot({
            ...given,
            ...paths(name),
            agentId: name,
            executor: agentOf({
              execute: async (context, bus) => {
                working(bus, context);
                await over.promise;
              },
            }),
          }),
        ),
    });
    const senders = (await clients(app)).map((client) => Recording.send(client, 'hello'));
    const ids = await Promise.all(senders.map(async (sender) => (await sender.task()).id));
    await app.close();
    over.resolve();
    const states = await fixture.database.query('SELECT DISTINCT state FROM a2a_tasks WHERE task_id = ANY($1)', [ids]);
    expect(states).toEqual([{ state: 'TASK_STATE_FAILED' }]);
    await Promise.all(senders.map((sender) => sender.ended));
  });
});

class Name {
  constructor(readonly value: string) {}
}

function nameModule(name: string): Type {
  @Module({ providers: [{ provide: Name, useValue: new Name(name) }], exports: [Name] })
  class NameModule {}
  return NameModule;
}
