// Attention maps: decodes the values of the layer that is chosen and draws them.
'use strict';
(() => {
  const {tokens, layers, first, head: firstHead} = JSON.parse(document.getElementById('map-values').textContent);
  const root = document.getElementById('map-view');
  const levels = 254;
  const about = {
    J: ['J', 'the dot products of queries and keys, before the heads are mixed'],
    L: ['L', 'the logits: J mixed by P_l and the dynamic projections, with bias and mask; colours are around the middle of their range'],
    W: ['W', 'the weights: the softmax of L over the memory'],
    U: ['U', 'W mixed by P_w and the dynamic projections: what the values are weighted with'],
  };
  const headName = {J: 'key head', L: 'softmax head', W: 'softmax head', U: 'value head'};

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const unique = (list) => [...new Set(list)];
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const short = (x) => {
    if (x === 0) return '0';
    if (Number.isNaN(x)) return 'no number';
    const size = Math.abs(x);
    return (size < 0.0005 || size >= 1e5 ? x.toExponential(1) : x.toPrecision(3)).replace('-', '−');
  };

  const groups = unique(layers.map((layer) => layer.group));
  const known = ['J', 'L', 'W', 'U'].filter((name) => layers.some((layer) => name in layer.tensors));
  const chosen = {group: layers[first].group, number: layers[first].number, tensor: known.includes('W') ? 'W' : known[0],
                  scale: 'head', head: firstHead, row: 0, column: 0};

  // ---- What is chosen ---------------------------------------------------------------------------------------------
  const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const decoded = new Map();  // of one layer at a time
  const current = () => layers.find((layer) => layer.group === chosen.group && layer.number === chosen.number);
  const tensorOf = (layer, name) => {
    if (!(name in layer.tensors)) return null;
    const key = layer.layer + ' ' + name;
    if (!decoded.has(key)) {
      const rows = tokens[layer.queries].length, columns = tokens[layer.memory].length;
      const masked = bytesOf(layer.masked);
      const place = new Int32Array(rows * columns).fill(-1);  // of a pair among those that are not masked
      let pairs = 0;
      for (let i = 0; i < place.length; ++i) {
        if ((masked[i >> 3] >> (i & 7) & 1) === 0) place[i] = pairs++;
      }
      decoded.set(key, {...layer.tensors[name], bytes: bytesOf(layer.tensors[name].data), rows, columns, place, pairs});
    }
    return decoded.get(key);
  };
  const valueAt = (map, head, index) => {
    if (map.place[index] < 0) return null;
    const level = map.bytes[head * map.pairs + map.place[index]];
    return level > levels ? NaN : map.low[head] + level / levels * (map.high[head] - map.low[head]);
  };
  // What has no colour, and how far from it the strongest is. To a softmax only differences count: L is coloured around
  // the middle of its range, the others around zero.
  const scaleOf = (map, head, tensor) => {
    const own = chosen.scale === 'head';
    const low = own ? map.low[head] : Math.min(...map.low), high = own ? map.high[head] : Math.max(...map.high);
    const middle = tensor === 'L' ? (low + high) / 2 : 0;
    return {middle, most: Math.max(middle - low, high - middle) || 1};
  };

  // ---- Drawing: the colour is the side, how opaque it is the distance ----------------------------------------------
  const draw = (canvas, map, head, tensor = chosen.tensor) => {
    [canvas.width, canvas.height] = [map.columns, map.rows];
    const context = canvas.getContext('2d');
    const image = context.createImageData(map.columns, map.rows);
    const {middle, most} = scaleOf(map, head, tensor);
    for (let i = 0; i < map.rows * map.columns; ++i) {
      const value = valueAt(map, head, i);
      const colour = value === null || Number.isNaN(value) ? [128, 128, 128] : value < middle ? [200, 76, 12] : [26, 95, 180];
      image.data.set([...colour, value === null ? 64 : Number.isNaN(value) ? 255 : Math.round(255 * Math.abs(value - middle) / most)], 4 * i);
    }
    context.putImageData(image, 0, 0);
  };

  // ---- Controls ---------------------------------------------------------------------------------------------------
  const radios = (name, legend, choices, pick) => {
    const box = make('div', {class: 'choices'});
    for (const [value, text, title] of choices) {
      const input = make('input', {type: 'radio', name: 'map-' + name, value, ...(title ? {title} : {})});
      input.checked = chosen[name] === value;
      input.addEventListener('change', () => pick(value));
      box.append(make('label', {}, input, make('span', {}, text)));
    }
    return make('fieldset', {}, make('legend', {}, legend), box);
  };
  const controls = make('div', {class: 'map-controls'});
  const showControls = () => {
    const focused = document.activeElement?.name;
    const own = layers.filter((layer) => layer.group === chosen.group);
    const sets = [];
    if (groups.length > 1) {
      sets.push(radios('group', 'Attention', groups.map((group) => [group, group]), (group) => {
        chosen.group = group;
        const numbers = layers.filter((layer) => layer.group === group).map((layer) => layer.number);
        if (!numbers.includes(chosen.number)) chosen.number = numbers[0];
        show();
      }));
    }
    sets.push(radios('number', 'Layer', own.map((layer) => [layer.number, layer.number]), (number) => {
      chosen.number = number;
      show();
    }));
    sets.push(radios('tensor', 'Tensor', known.filter((name) => name in current().tensors).map(
      (name) => [name, about[name][0], about[name][1]]), (name) => {
      chosen.tensor = name;
      show();
    }));
    sets.push(radios('scale', 'Scale of colours', [['head', 'each head'], ['layer', 'whole layer']], (scale) => {
      chosen.scale = scale;
      show();
    }));
    controls.replaceChildren(...sets);
    if (focused?.startsWith('map-')) controls.querySelector(`input[name="${focused}"]:checked`)?.focus();
  };

  // ---- Small maps -------------------------------------------------------------------------------------------------
  const heads = make('div', {class: 'map-heads', role: 'group', 'aria-label': 'Heads'});
  const showHeads = (map) => {
    heads.style.setProperty('--small', map.shown > 16 ? '4.4rem' : map.shown > 9 ? '5.5rem' : '7rem');
    heads.style.setProperty('--ratio', `${map.columns}/${map.rows}`);
    heads.replaceChildren(...map.low.map((_, head) => {
      const canvas = make('canvas', {'aria-hidden': 'true'});
      draw(canvas, map, head);
      const button = make('button', {type: 'button', 'aria-pressed': String(head === chosen.head),
                                     'aria-label': `head ${head + 1}, ${short(map.low[head])} to ${short(map.high[head])}`},
                          make('span', {class: 'map-small'}, canvas),
                          make('small', {}, make('b', {}, String(head + 1)),
                               make('span', {title: 'largest value'}, short(map.high[head]))));
      button.addEventListener('click', () => {
        chosen.head = head;
        for (const other of heads.children) other.setAttribute('aria-pressed', String(other === button));
        showBig();
        const box = big.getBoundingClientRect();
        if (box.bottom < 40 || box.top > innerHeight - 80) big.scrollIntoView({block: 'nearest'});
      });
      return button;
    }));
  };
  heads.addEventListener('keydown', (event) => {
    const at = [...heads.children].indexOf(document.activeElement);
    const across = Math.max(1, getComputedStyle(heads).gridTemplateColumns.split(' ').length);
    const to = {ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - across, ArrowDown: at + across}[event.key];
    if (at < 0 || to === undefined || !heads.children[to]) return;
    event.preventDefault();
    heads.children[to].focus();
  });

  // ---- The chosen head through the layer: J → L → W → U ------------------------------------------------------------
  const road = make('div', {class: 'map-road', role: 'group', 'aria-label': 'The chosen head, tensor by tensor'});
  const showRoad = () => {
    const layer = current();
    road.replaceChildren(...known.flatMap((name) => {
      const map = tensorOf(layer, name);
      if (map === null || chosen.head >= map.shown) return [];
      const canvas = make('canvas', {'aria-hidden': 'true'});
      draw(canvas, map, chosen.head, name);
      const button = make('button', {type: 'button', 'aria-pressed': String(name === chosen.tensor),
                                     'aria-label': `${name} of ${headName[name]} ${chosen.head + 1}`},
                          make('span', {class: 'map-small'}, canvas),
                          make('small', {}, make('b', {}, `${name} of head ${chosen.head + 1}`)));
      button.addEventListener('click', () => {
        chosen.tensor = name;
        show();
        road.querySelector('[aria-pressed="true"]')?.focus();
      });
      return [button];
    }));
    road.style.setProperty('--ratio', heads.style.getPropertyValue('--ratio'));
  };

  // ---- The large map ----------------------------------------------------------------------------------------------
  const caption = make('figcaption');
  const readout = make('p', {class: 'map-readout'});
  const bigCanvas = make('canvas', {'aria-hidden': 'true'});
  const cells = make('div', {class: 'map-cells', tabindex: '0', role: 'slider', 'aria-valuemin': '0'}, bigCanvas);
  const rows = make('div', {class: 'map-rows', 'aria-hidden': 'true'});
  const columns = make('div', {class: 'map-columns', 'aria-hidden': 'true'});
  const axes = make('p', {class: 'map-axes'}, 'Down: queries. Across: memory positions. Grey: masked.');
  const frame = make('div', {class: 'map-frame'}, rows, cells, columns, axes);
  const big = make('figure', {class: 'map-big'}, caption, readout, frame);

  // Every so many-th label, so that each has room; the chosen one always.
  const labels = (box, names, side, at) => {
    const pixels = side === 'top' ? cells.clientHeight : cells.clientWidth;
    const every = Math.max(1, Math.ceil(12 * names.length / Math.max(1, pixels)));
    const shown = names.flatMap((name, i) => {
      const near = at >= 0 && i !== at && Math.abs(i - at) < every;
      if (i !== at && (i % every !== 0 || near)) return [];
      const label = make('span', i === at ? {class: 'on'} : {}, name);
      label.style[side === 'top' ? 'top' : 'left'] = `${100 * (i + 0.5) / names.length}%`;
      return [label];
    });
    const widest = names.reduce((a, b) => (b.length > a.length ? b : a), '');
    if (side === 'top') shown.push(make('span', {class: 'widest'}, widest));
    box.replaceChildren(...shown);
  };
  const showLabels = (at) => {
    const layer = current();
    labels(rows, tokens[layer.queries], 'top', at ? chosen.row : -1);
    labels(columns, tokens[layer.memory], 'left', at ? chosen.column : -1);
    const tallest = Math.max(...[...columns.children].map((label) => label.offsetHeight), 0);
    columns.style.setProperty('--high', `${tallest + 8}px`);
  };
  const rest = 'Point at the map, or give it the arrow keys, to read values.';
  const hide = () => {
    cells.querySelector('.cell')?.remove();
    readout.textContent = rest;
    showLabels(false);
  };
  const showCell = () => {
    const layer = current(), map = tensorOf(layer, chosen.tensor);
    chosen.row = clamp(chosen.row, 0, map.rows - 1);
    chosen.column = clamp(chosen.column, 0, map.columns - 1);
    const index = chosen.row * map.columns + chosen.column;
    cells.querySelector('.cell')?.remove();
    const mark = cells.appendChild(make('div', {class: 'cell'}));
    Object.assign(mark.style, {left: `${100 * chosen.column / map.columns}%`, top: `${100 * chosen.row / map.rows}%`,
                               width: `${100 / map.columns}%`, height: `${100 / map.rows}%`});
    const value = valueAt(map, chosen.head, index);
    const text = value === null ? 'masked' : `${chosen.tensor} = ${short(value)}`;
    const others = known.filter((name) => name !== chosen.tensor).flatMap((name) => {
      const other = tensorOf(layer, name);
      if (other === null || chosen.head >= other.shown || value === null) return [];
      return [`${name} = ${short(valueAt(other, chosen.head, index) ?? NaN)}`];
    });
    const pair = `${tokens[layer.queries][chosen.row]} → ${tokens[layer.memory][chosen.column]}`;
    readout.replaceChildren(make('b', {}, text), ` at ${pair}`,
                            others.length > 0 ? ` (head ${chosen.head + 1} of the others: ${others.join(', ')})` : '');
    cells.setAttribute('aria-valuenow', String(index));
    cells.setAttribute('aria-valuetext', `${pair}: ${text}`);
    showLabels(true);
  };
  const showBig = () => {
    const layer = current(), map = tensorOf(layer, chosen.tensor);
    const head = chosen.head = clamp(chosen.head, 0, map.shown - 1);
    caption.replaceChildren(`${chosen.tensor} of ${headName[chosen.tensor]} ${head + 1}`,
                            make('span', {}, `${short(map.low[head])} to ${short(map.high[head])}`));
    draw(bigCanvas, map, head);
    showRoad();
    cells.style.setProperty('--ratio', `${map.columns}/${map.rows}`);
    cells.setAttribute('aria-label', `Map of ${chosen.tensor}, head ${head + 1}`);
    cells.setAttribute('aria-valuemax', String(map.rows * map.columns - 1));
    cells.setAttribute('aria-valuenow', '0');
    cells.setAttribute('aria-valuetext', 'use the arrow keys');
    hide();
  };
  cells.addEventListener('pointermove', (event) => {
    const map = tensorOf(current(), chosen.tensor), box = cells.getBoundingClientRect();
    chosen.row = Math.floor((event.clientY - box.top) / box.height * map.rows);
    chosen.column = Math.floor((event.clientX - box.left) / box.width * map.columns);
    showCell();
  });
  cells.addEventListener('pointerleave', hide);
  cells.addEventListener('blur', hide);
  cells.addEventListener('keydown', (event) => {
    const move = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -1e9],
                  End: [0, 1e9], PageUp: [-1e9, 0], PageDown: [1e9, 0], Enter: [0, 0]}[event.key];
    if (event.key === 'Escape') hide();
    if (move === undefined) return;
    event.preventDefault();
    chosen.row += move[0];
    chosen.column += move[1];
    showCell();
  });

  // ---- All of it --------------------------------------------------------------------------------------------------
  const description = make('p', {class: 'map-about'});
  const show = () => {
    decoded.clear();
    const layer = current();
    if (!(chosen.tensor in layer.tensors)) chosen.tensor = known.find((name) => name in layer.tensors);
    const map = tensorOf(layer, chosen.tensor);
    chosen.head = clamp(chosen.head, 0, map.shown - 1);
    showControls();
    const absent = known.filter((name) => !(name in layer.tensors));
    const of = map.shown < map.heads ? `, the first ${map.shown} of ${map.heads} heads` : `, ${map.heads} heads`;
    description.replaceChildren(
      make('strong', {}, `${layer.group}, layer ${layer.number}, ${chosen.tensor}`), `${of}: ${about[chosen.tensor][1]}. `,
      absent.includes('U') ? 'Nothing mixes the weights here, so that U is W. ' : '',
      absent.includes('J') && 'L' in layer.tensors ? 'This kind of attention has no J. ' : '',
      layer.module === layer.layer ? '' : `The parameters are those of ${layer.module}, which several layers share.`);
    showHeads(map);
    showBig();
  };
  root.replaceChildren(controls, description, make('div', {class: 'map-panes'}, heads, make('div', {}, road, big)));
  show();
  addEventListener('resize', () => showLabels(cells.querySelector('.cell') !== null));
})();
