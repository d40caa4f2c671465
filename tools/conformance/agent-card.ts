/** The card of the agent for A2A's compatibility kit. */
export const conformanceCard = {
  name: 'Conformance agent',
  description: "Does what A2A's compatibility kit asks of an agent, by the prefix of a message's id.",
  version: '0.1.0',
  capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: false, extensions: [] },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain', 'application/json'],
  skills: [
    {
      id: 'conformance',
      name: 'Conformance',
      description: 'Completes, asks, rejects, replies, streams artifacts, or waits',
      tags: ['conformance'],
      examples: [],
      inputModes: ['text/plain'],
      outputModes: ['text/plain'],
      securityRequirements: [],
    },
  ],
};
