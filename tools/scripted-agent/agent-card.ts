/** What the agent says of itself. Where it is reached is filled in by the library, from the public URL. */
export const agentCard = {
  name: 'Scripted agent',
  description: 'Does what the text of a message says, one command a line; echoes what is no command.',
  version: '0.1.0',
  capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: false, extensions: [] },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [
    {
      id: 'script',
      name: 'Script',
      description:
        'say, work, deaf, stream, ask, auth, block, throw, exit, reply, charge, transfer; one command a line',
      tags: ['demo'],
      examples: ['say hello', 'work 5', 'stream 200 10', 'ask which colour?'],
      inputModes: ['text/plain'],
      outputModes: ['text/plain'],
      securityRequirements: [],
    },
  ],
};
