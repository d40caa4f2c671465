const { readFileSync } = require('node:fs');
const { join } = require('node:path');

const LIBRARY = '^libs/a2a-cluster/src/';
const SPEC = '[.]spec[.]ts$';

/**
 * What each room of the library may import, besides itself: docs/internals/architecture.md, "The house". Imports point one
 * way, and types count like values. Only `module` and the index see everything. Nothing but them sees `testing`.
 */
const LEAVES = ['async', 'errors', 'logging', 'race-points'];
const ARROWS = {
  'race-points': [],
  logging: [],
  errors: [],
  async: ['errors'],
  options: ['errors'],
  leases: ['options', ...LEAVES],
  tasks: ['leases', 'options', ...LEAVES],
  streams: ['tasks', 'leases', 'options', ...LEAVES],
  effects: ['streams', 'tasks', 'leases', 'options', ...LEAVES],
  push: ['streams', 'tasks', 'leases', 'options', ...LEAVES],
  retention: ['effects', 'streams', 'tasks', 'leases', 'options', ...LEAVES],
};
ARROWS.turns = ['effects', 'push', 'streams', 'tasks', 'leases', 'options', ...LEAVES];
ARROWS.recovery = ['turns', ...ARROWS.turns];
ARROWS['transports/flow'] = ['tasks', 'options', ...LEAVES];
ARROWS.protocol = ['recovery', 'transports/flow', ...ARROWS.recovery];
ARROWS.transports = ['protocol', ...ARROWS.protocol];
ARROWS.postgres = ['retention', 'effects', 'push', 'streams', 'tasks', 'leases', 'options', ...LEAVES];
ARROWS.stores = ['effects', 'push', 'streams', 'tasks', 'leases', ...LEAVES];
ARROWS.testing = Object.keys(ARROWS);
ARROWS.module = Object.keys(ARROWS);

/** Files that a room may import all the same. */
const FILES = {
  // Whose task it is: a name, and nothing of what tasks are.
  leases: ['tasks/task-scope.ts'],
  // What a recovery policy is shown of an outside action: a type, and nothing that runs.
  options: ['effects/unresolved-effects.ts'],
};

const either = (names) => `(${names.join('|')})`;
const npm = (...names) => `(^|/)node_modules/(@types/)?${either(names)}(/|$)|^${either(names)}$`;

/** A room in a room has arrows of its own. */
const roomsWithin = (folder) =>
  Object.keys(ARROWS)
    .filter((other) => other.startsWith(`${folder}/`))
    .map((other) => `${LIBRARY}${other}/`);

const arrows = Object.entries(ARROWS).map(([folder, allowed]) => ({
  name: `arrow-${folder}`,
  comment: `${folder} may import ${allowed.join(', ') || 'nothing'} of the library`,
  severity: 'error',
  from: { path: `${LIBRARY}${folder}/`, pathNot: [SPEC, ...roomsWithin(folder)] },
  to: {
    path: LIBRARY,
    pathNot: [
      `${LIBRARY}${either([folder, ...allowed])}/`,
      ...(FILES[folder] ?? []).map((file) => `${LIBRARY}${file}$`),
    ],
  },
}));

const { peerDependencies } = JSON.parse(readFileSync(join(__dirname, 'libs/a2a-cluster/package.json'), 'utf8'));

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    ...arrows,
    {
      name: 'arrow-unknown-folder',
      comment: 'A new folder of the library has its arrows in .dependency-cruiser.cjs first',
      severity: 'error',
      from: {},
      to: { path: `${LIBRARY}[^/]+/`, pathNot: `${LIBRARY}${either(Object.keys(ARROWS))}/` },
    },
    {
      name: 'no-circular',
      comment: 'Two files that need each other are one, or lack a third',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'testing-is-for-users',
      comment: 'What users test with is no part of what runs',
      severity: 'error',
      from: { path: LIBRARY, pathNot: [SPEC, `${LIBRARY}testing/`] },
      to: { path: `${LIBRARY}testing/` },
    },
    {
      name: 'library-stands-alone',
      comment: 'The library knows neither its tests nor its tools nor its sample',
      severity: 'error',
      from: { path: '^libs/', pathNot: SPEC },
      to: { path: '^(test|tools|apps)/' },
    },
    {
      name: 'library-imports-its-peers',
      comment: 'What the package imports is in its peerDependencies, or its users do not have it',
      severity: 'error',
      from: { path: '^libs/', pathNot: SPEC },
      to: { path: '(^|/)node_modules/', pathNot: npm(...Object.keys(peerDependencies)) },
    },
    {
      name: 'sample-uses-the-package',
      comment: "The sample imports 'nestjs-a2a-cluster' like any user, never a file of it",
      severity: 'error',
      from: { path: '^apps/', pathNot: SPEC },
      to: { path: '^(libs|tools|test)/', dependencyTypesNot: ['aliased', 'npm'] },
    },
    {
      name: 'tools-use-the-package',
      comment:
        "The tools import 'nestjs-a2a-cluster' like any user, and what the sample offers, but nothing of the tests",
      severity: 'error',
      from: { path: '^tools/' },
      to: { path: '^(libs|test)/', dependencyTypesNot: ['aliased', 'npm'] },
    },
    {
      name: 'harness-knows-no-agent',
      comment: 'What starts servers and processes serves every agent, test and demo alike',
      severity: 'error',
      from: { path: '^tools/harness/' },
      to: { path: '^tools/', pathNot: '^tools/harness/' },
    },
    {
      name: 'schedule-only-in-recovery',
      comment: 'Jobs are the sweepers; other timers are in heartbeat, poller and dispatcher',
      severity: 'error',
      from: { path: `${LIBRARY}[^/]+/`, pathNot: [SPEC, `${LIBRARY}${either(['recovery', 'module'])}/`] },
      to: { path: npm('@nestjs/schedule') },
    },
    {
      name: 'sql-only-in-stores',
      comment: 'SQL has a wing of its own: what needs the database asks a store',
      severity: 'error',
      from: {
        path: `${LIBRARY}[^/]+/`,
        // The work of turn.transaction() is given TypeORM's EntityManager.
        pathNot: [SPEC, `${LIBRARY}${either(['postgres', 'module'])}/`, `${LIBRARY}effects/turn-transactions[.]ts$`],
      },
      to: { path: npm('pg', 'typeorm', '@nestjs/typeorm') },
    },
    {
      name: 'not-resolvable',
      comment: 'An import that leads nowhere escapes every other rule',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    exclude: { path: ['^(libs|apps)/[^/]+/dist/', '^dist/'] },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'types', 'node', 'default'],
    },
  },
};
