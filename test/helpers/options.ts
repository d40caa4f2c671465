import {
  type A2AClusterOptions,
  type ResolvedOptions,
  resolveOptions,
} from '../../libs/a2a-cluster/src/options/cluster.options.js';

/** What has no default. */
export const REQUIRED_OPTIONS: A2AClusterOptions = {
  agentCard: { name: 'agent', description: 'An agent for tests', version: '1' },
  publicUrl: 'http://agent.test',
};

/** Options as the module resolves them, with the defaults for what a test does not care about. */
export const optionsWith = (given: Partial<A2AClusterOptions> = {}): ResolvedOptions =>
  resolveOptions({ ...REQUIRED_OPTIONS, ...given });
