/** What the agent says of itself. Where it is reached is filled in by the library, from the public URL. */
export const agentCard = {
  name: 'Report agent',
  description: 'Writes a short report about a topic, a section at a time, and files it.',
  version: '0.1.0',
  capabilities: { streaming: true, pushNotifications: false, extendedAgentCard: false, extensions: [] },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [
    {
      id: 'report',
      name: 'Report',
      description: 'Name a topic, or send an empty message to be asked for one',
      tags: ['writing'],
      examples: ['tides', 'the history of the umbrella'],
      inputModes: ['text/plain'],
      outputModes: ['text/plain'],
      securityRequirements: [],
    },
  ],
};
