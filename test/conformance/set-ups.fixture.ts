import { ConformanceAgent } from '../../apps/sample/src/conformance/conformance-agent.executor.js';
import { conformanceCard } from '../../apps/sample/src/conformance/agent-card.js';
import { RoundRobinProxy } from '../../apps/sample/src/conformance/round-robin.proxy.js';
import { AgentAppFixture } from '../e2e/agent-app.fixture.js';
import type { WireClient } from './wire.client.js';

/** Where an agent is reached that serves in one of the set-ups. */
export interface Served {
  url: string;
  /** Speaks the binding that the tests are run over. */
  client: WireClient;
}

const SET_UPS: Readonly<Record<string, number>> = { 'one replica': 1, 'three replicas behind a round-robin proxy': 3 };

/**
 * Has the tests run against the agent of the compatibility kit in each set-up: every request that a test makes goes to
 * another replica than the one before, where there are several. Called at the top of a test file.
 */
export function inEachSetUp(tests: (served: Served) => void): void {
  const fixture = new AgentAppFixture({ for: 'file' });
  describe.each(Object.entries(SET_UPS))('%s', (_name, replicas) => {
    const served = {} as Served;
    let proxy: RoundRobinProxy | undefined;
    beforeAll(async () => {
      proxy = await RoundRobinProxy.listen();
      served.url = proxy.url;
      for (let n = 0; n < replicas; n += 1) proxy.add((await fixture.start(agent(proxy.url))).url);
    });
    afterAll(() => proxy?.close());
    tests(served);
  });
}

const agent = (publicUrl: string) => ({
  cluster: {
    ...{ executor: ConformanceAgent, agentCard: conformanceCard, publicUrl },
    ...{ turns: { messageIdWindowMs: 0 }, push: { allow: ['127.0.0.0/8'] } },
  },
});
