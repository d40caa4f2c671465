const { readFileSync } = require('node:fs');
const { join } = require('node:path');

const LIBRARY = '^libs/a2a-cluster/src/';
const SPEC = '[.]spec[.]ts$';

/**
 * What each folder of the library may import, besides itself: docs/internals/architecture.md, "The house". Imports point one way;
 * types count like values. Only the root files see everything, and nothing but them sees `testing`.
 */
const ARROWS = {
  'race-points': [],
  errors: [],
  database: ['errors'],
  observability: ['database', 'errors'],
  leases: ['database', 'errors'],
  tasks: ['leases', 'database', 'errors'],
  streams: ['tasks', 'leases', 'database', 'errors'],
  effects: ['streams', 'tasks', 'leases', 'database', 'errors'],
  push: ['streams', 'tasks', 'leases', 'database', 'errors'],
  retention: ['effects', 'streams', 'tasks', 'leases', 'database', 'errors'],
  turns: ['effects', 'push', 'streams', 'tasks', 'leases', 'database', 'observability', 'errors'],
};
ARROWS.recovery = ['turns', ...ARROWS.turns];
ARROWS.protocol = ['recovery', ...ARROWS.recovery];
// Points may be anywhere.
for (const allowed of Object.values(ARROWS)) allowed.push('race-points');
ARROWS.testing = Object.keys(ARROWS);

/** Root files that a folder may import all the same: the options are what the protocol's controllers are made of. */
const ROOT_FILES = { protocol: ['a2a-cluster.options.ts'], testing: ['[^/]+'] };

const SQL_FOLDERS = ['database', 'leases', 'tasks', 'streams', 'effects', 'push'];

const either = (names) => `(${names.join('|')})`;
const npm = (...names) => `(^|/)node_modules/(@types/)?${either(names)}(/|$)|^${either(names)}$`;

const arrows = Object.entries(ARROWS).map(([folder, allowed]) => ({
  name: `arrow-${folder}`,
  comment: `${folder} may import ${allowed.join(', ') || 'nothing'} of the library`,
  severity: 'error',
  from: { path: `${LIBRARY}${folder}/`, pathNot: SPEC },
  to: {
    path: LIBRARY,
    pathNot: [
      `${LIBRARY}${either([folder, ...allowed])}/`,
      ...(ROOT_FILES[folder] ?? []).map((file) => `${LIBRARY}${file}$`),
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
      comment: 'The library knows neither its tests nor its sample',
      severity: 'error',
      from: { path: '^libs/', pathNot: SPEC },
      to: { path: '^(test|apps)/' },
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
      to: { path: '^(libs|test)/', dependencyTypesNot: ['aliased', 'npm'] },
    },
    {
      name: 'schedule-only-in-recovery',
      comment: 'Jobs are the sweepers; other timers are in heartbeat, poller and dispatcher',
      severity: 'error',
      from: { path: `${LIBRARY}[^/]+/`, pathNot: [SPEC, `${LIBRARY}${either(['recovery', 'testing'])}/`] },
      to: { path: npm('@nestjs/schedule') },
    },
    {
      name: 'sql-only-in-stores',
      comment: 'What needs the database asks a store',
      severity: 'error',
      from: { path: `${LIBRARY}[^/]+/`, pathNot: [SPEC, `${LIBRARY}${either([...SQL_FOLDERS, 'testing'])}/`] },
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
    exclude: { path: '^(libs|apps)/[^/]+/dist/' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'types', 'node', 'default'],
    },
  },
};
