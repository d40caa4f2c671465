import { ConformanceAgent } from '../../tools/conformance/conformance-agent.executor.js';
import { conformanceCard } from '../../tools/conformance/agent-card.js';
import { GrpcRoundRobinProxy } from '../../tools/conformance/grpc-round-robin.proxy.js';
import { RoundRobinProxy } from '../../tools/conformance/round-robin.proxy.js';
import { AgentAppFixture, TRANSPORTS } from '../e2e/agent-app.fixture.js';
import { targetOf, withGrpc } from '../e2e/grpc.fixture.js';
import { GrpcClient } from './grpc.client.js';
import { HttpClient } from './http.client.js';
import type { WireClient } from './wire.client.js';

export const BINDINGS = [...TRANSPORTS, 'GRPC'] as const;

/** Every operation, by the name that all bindings know it by. */
export const OPERATIONS = [
  'SendMessage',
  'SendStreamingMessage',
  'GetTask',
  'ListTasks',
  'CancelTask',
  'SubscribeToTask',
  'CreateTaskPushNotificationConfig',
  'GetTaskPushNotificationConfig',
  'ListTaskPushNotificationConfigs',
  'DeleteTaskPushNotificationConfig',
  'GetExtendedAgentCard',
];

/** Where an agent is reached that serves in one of the set-ups. */
export interface Served {
  url: string;
  grpcTarget: string;
  /** Speaks the binding that the tests are run over. */
  client: WireClient;
}

/** A client of what is served, over this binding. */
export const clientOf = ({ url, grpcTarget }: Served, binding: (typeof BINDINGS)[number]): WireClient =>
  binding === 'GRPC' ? new GrpcClient(grpcTarget) : new HttpClient(url, binding);

const SET_UPS: Readonly<Record<string, number>> = { 'one replica': 1, 'three replicas behind a round-robin proxy': 3 };

/**
 * Has the tests run against the agent of the compatibility kit in each set-up: every request that a test makes goes to
 * another replica than the one before, where there are several. Called at the top of a test file.
 */
export function inEachSetUp(tests: (served: Served) => void): void {
  const fixture = new AgentAppFixture({ for: 'file' });
  describe.each(Object.entries(SET_UPS))('%s', (_name, replicas) => {
    const served = {} as Served;
    let proxies: [RoundRobinProxy, GrpcRoundRobinProxy] | undefined;
    beforeAll(async () => {
      const [http, grpc] = (proxies = [await RoundRobinProxy.listen(), await GrpcRoundRobinProxy.listen()]);
      Object.assign(served, { url: http.url, grpcTarget: grpc.target });
      for (let n = 0; n < replicas; n += 1) {
        const app = await fixture.start(withGrpc(agent(http.url), { publicUrl: grpc.target }));
        http.add(app.url);
        grpc.add(targetOf(app));
      }
    });
    afterAll(async () => {
      for (const proxy of proxies ?? []) await proxy.close();
    });
    tests(served);
  });
}

const agent = (publicUrl: string) => ({
  cluster: {
    executor: ConformanceAgent,
    agentCard: conformanceCard,
    publicUrl,
    turns: { messageIdWindowMs: 0 },
    push: { allow: ['127.0.0.0/8'] },
  },
});
