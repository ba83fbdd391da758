// What a page does beyond showing: the switch of the colour scheme, and values under the pointer and the arrow keys,
// from the records beside the figures; and attention maps, whose values it draws.
'use strict';
(() => {
  const scheme = document.getElementById('scheme');
  const system = matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;  // by the reader, against the system's
  const showScheme = () => {
    if (chosen !== null) document.documentElement.dataset.scheme = chosen ? 'dark' : 'light';
    scheme.textContent = chosen ?? system.matches ? 'Light colours' : 'Dark colours';  // what a press does
  };
  scheme.hidden = false;
  scheme.addEventListener('click', () => {
    chosen = !(chosen ?? system.matches);
    showScheme();
  });
  system.addEventListener('change', showScheme);
  showScheme();

  // ---- Common to all figures ---------------------------------------------------------------------------------------
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const percent = (share) => 100 * share + '%';
  const make = (tag, attributes = {}, ...children) => {
    const drawn = ['line', 'circle', 'rect'].includes(tag);
    const element = drawn ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const recordOf = (figure) => JSON.parse(figure.querySelector('script').textContent);

  // A grid of cells that the pointer and the arrow keys read: a slider, to which a screen reader passes the arrow keys.
  // size() is [columns, rows]; show(column, row) shows a cell and returns what is said of it. at(across, down) is the
  // cell at a place. Returns what begins again, with another grid too.
  const makeReadable = (element, size, show, hide, {start = [0, 0], at = null} = {}) => {
    let cell = start;
    const place = at ?? ((across, down) => [Math.floor(across * size()[0]), Math.floor(down * size()[1])]);
    const reset = () => {
      const [columns, rows] = size();
      const values = {valuemin: 0, valuemax: columns * rows - 1, valuenow: 0, valuetext: 'use the arrow keys'};
      for (const [name, value] of Object.entries(values)) element.setAttribute('aria-' + name, value);
      hide();
    };
    const go = (column, row) => {
      const [columns, rows] = size();
      cell = [clamp(column, 0, columns - 1), clamp(row, 0, rows - 1)];
      hide();
      const text = show(...cell);
      element.setAttribute('aria-valuenow', cell[1] * columns + cell[0]);
      element.setAttribute('aria-valuetext', text);
    };
    element.setAttribute('role', 'slider');
    element.setAttribute('tabindex', '0');
    element.addEventListener('pointermove', (event) => {
      const box = element.getBoundingClientRect();
      go(...place((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height));
    });
    element.addEventListener('pointerleave', hide);
    element.addEventListener('blur', hide);
    element.addEventListener('keydown', (event) => {
      const [columns, rows] = size();
      const far = rows > 1 ? rows : Math.max(1, Math.round(columns / 10));
      const move = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-columns, 0],
                    End: [columns, 0], PageUp: [0, -far], PageDown: [0, far], Enter: [0, 0]}[event.key];
      if (event.key === 'Escape') hide();
      if (move === undefined) return;
      event.preventDefault();
      // In one row, up and down are as right and left.
      go(cell[0] + move[0] - (rows > 1 ? 0 : move[1]), cell[1] + move[1]);
    });
    return reset;
  };

  // ---- Charts -----------------------------------------------------------------------------------------------------
  // "17,148", "0.5", "1.8e-05", as the tables have it.
  const number = (x) => {
    const size = Math.abs(x);
    if (x !== 0 && (size < 1e-4 || size >= 1e15)) return x.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
    return x.toLocaleString('en-US', {maximumSignificantDigits: 15});
  };
  // The index of the value of a sorted list that is nearest to x.
  const nearest = (xs, x) => {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle; else high = middle;
    }
    return Math.abs(xs[high] - x) < Math.abs(xs[low] - x) ? high : low;
  };
  const placeOn = ([low, high, log]) => {
    const scale = log ? Math.log : (value) => value;
    return (value) => (scale(value) - scale(low)) / (scale(high) - scale(low));
  };

  for (const figure of document.querySelectorAll('figure.chart')) {
    const {label, unit, x: xAxis, y: yAxis, series} = recordOf(figure);
    const plot = figure.querySelector('.plot'), at = figure.querySelector('.at');
    const values = [...figure.querySelectorAll('.legend .value')], last = values.map((value) => value.textContent);
    const names = [...figure.querySelectorAll('.legend .name')].map((name) => name.textContent);
    const placeX = placeOn(xAxis), placeY = placeOn(yAxis);
    const points = [...new Set(series.flatMap((one) => one.x))].sort((a, b) => a - b), places = points.map(placeX);
    const hide = () => {
      for (const drawn of plot.querySelectorAll('.cursor, .dot')) drawn.remove();
      at.textContent = 'last value';
      values.forEach((value, i) => { value.textContent = last[i]; });
    };
    const show = (column) => {
      const x = points[column], across = percent(places[column]);
      plot.append(make('line', {class: 'cursor', x1: across, x2: across, y1: 0, y2: '100%'}));
      at.textContent = `${label} ${number(x)}`;
      series.forEach((one, k) => {
        const i = nearest(one.x, x);
        const near = Math.abs(one.x[i] - x) <= 0.005 * (xAxis[1] - xAxis[0]) ? '' : ` at ${number(one.x[i])}`;
        const range = one.low && one.low[i] !== one.high[i] ? ` (${number(one.low[i])} to ${number(one.high[i])})` : '';
        values[k].textContent = number(one.y[i]) + unit + range + near;
        plot.append(make('circle', {class: `dot ${one.class}`, r: 4.5, cx: percent(placeX(one.x[i])),
                                    cy: percent(1 - clamp(placeY(one.y[i]), 0, 1))}));
      });
      return `${at.textContent}: ${names.map((name, k) => `${name} ${values[k].textContent}`).join('; ')}`;
    };
    makeReadable(plot, () => [points.length, 1], show, hide,
                 {start: [points.length - 1, 0], at: (across) => [nearest(places, across), 0]})();
  }

  // ---- Heat maps ----------------------------------------------------------------------------------------------------
  for (const figure of document.querySelectorAll('figure.heat')) {
    const {rows, columns, most, values} = recordOf(figure);
    const plot = figure.querySelector('.plot'), image = plot.querySelector('image');
    const readout = figure.querySelector('.readout'), rest = readout.textContent;
    let pixels = null;
    // Without exact values the image has them in 255 levels.
    const valueAt = (index) => {
      if (values) return number(values[index]);
      if (pixels === null) {
        const canvas = make('canvas', {width: columns.length, height: rows.length}), context = canvas.getContext('2d');
        context.drawImage(image, 0, 0, columns.length, rows.length);
        pixels = context.getImageData(0, 0, columns.length, rows.length).data;
      }
      const sign = pixels[4 * index] > pixels[4 * index + 2] ? -1 : 1;
      return (sign * pixels[4 * index + 3] / 255 * most).toPrecision(2);
    };
    const hide = () => {
      plot.querySelector('.cell')?.remove();
      readout.textContent = rest;
    };
    makeReadable(plot, () => [columns.length, rows.length], (column, row) => {
      plot.append(make('rect', {class: 'cell', x: percent(column / columns.length), y: percent(row / rows.length),
                                width: percent(1 / columns.length), height: percent(1 / rows.length)}));
      readout.textContent = `${rows[row]}, ${columns[column]}: ${valueAt(row * columns.length + column)}`;
      return readout.textContent;
    }, hide)();
  }

  // ---- Attention maps -----------------------------------------------------------------------------------------------
  const view = document.getElementById('map-view');
  if (view === null) return;
  const {tokens, layers, first, head: firstHead} = JSON.parse(document.getElementById('map-values').textContent);
  const levels = 254;
  const about = {
    J: 'the dot products of queries and keys, before the heads are mixed',
    L: 'the logits: J mixed by P_l and the dynamic projections, with bias and mask; colours are around the middle of their range',
    W: 'the weights: the softmax of L over the memory',
    U: 'W mixed by P_w and the dynamic projections: what the values are weighted with',
  };
  const headName = {J: 'key head', L: 'softmax head', W: 'softmax head', U: 'value head'};
  const known = Object.keys(about).filter((name) => layers.some((layer) => name in layer.tensors));
  const shown = {group: layers[first].group, number: layers[first].number, tensor: known.includes('W') ? 'W' : known[0],
                 scale: 'head', head: firstHead};
  const short = (x) => {
    if (x === 0) return '0';
    if (Number.isNaN(x)) return 'no number';
    const size = Math.abs(x);
    return (size < 0.0005 || size >= 1e5 ? x.toExponential(1) : x.toPrecision(3)).replace('-', '−');
  };

  const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const decoded = new Map();  // tensors of one layer at a time
  const current = () => layers.find((layer) => layer.group === shown.group && layer.number === shown.number);
  const tensorOf = (name) => {
    const layer = current();
    if (!(name in layer.tensors)) return null;
    if (!decoded.has(name)) {
      const rows = tokens[layer.queries], columns = tokens[layer.memory], masked = bytesOf(layer.masked);
      const place = new Int32Array(rows.length * columns.length).fill(-1);  // among the pairs that are not masked
      let pairs = 0;
      for (let i = 0; i < place.length; ++i) {
        if ((masked[i >> 3] >> (i & 7) & 1) === 0) place[i] = pairs++;
      }
      decoded.set(name, {...layer.tensors[name], bytes: bytesOf(layer.tensors[name].data), rows, columns, place, pairs});
    }
    return decoded.get(name);
  };
  const valueAt = (map, head, index) => {
    if (map.place[index] < 0) return null;
    const level = map.bytes[head * map.pairs + map.place[index]];
    return level > levels ? NaN : map.low[head] + level / levels * (map.high[head] - map.low[head]);
  };

  // The colour is the side of what has none, how opaque it is the distance. To a softmax only differences count: L is
  // coloured around the middle of its range, the others around zero.
  const canvasOf = (map, head, tensor) => {
    const canvas = make('canvas', {'aria-hidden': 'true', width: map.columns.length, height: map.rows.length});
    const context = canvas.getContext('2d'), image = context.createImageData(canvas.width, canvas.height);
    const own = shown.scale === 'head';
    const low = own ? map.low[head] : Math.min(...map.low), high = own ? map.high[head] : Math.max(...map.high);
    const middle = tensor === 'L' ? (low + high) / 2 : 0, most = Math.max(middle - low, high - middle) || 1;
    for (let i = 0; i < map.place.length; ++i) {
      const value = valueAt(map, head, i), none = value === null || Number.isNaN(value);
      const colour = none ? [128, 128, 128] : value < middle ? [200, 76, 12] : [26, 95, 180];
      image.data.set([...colour, value === null ? 64 : none ? 255 : Math.round(255 * Math.abs(value - middle) / most)], 4 * i);
    }
    context.putImageData(image, 0, 0);
    return canvas;
  };

  // Choices: [key, legend, [[value, text, title], …]].
  const controls = make('div');
  const showControls = () => {
    const focused = document.activeElement?.name;
    const same = (list) => [...new Set(list)].map((value) => [value, value]);
    const own = layers.filter((layer) => layer.group === shown.group);
    const sets = [
      ['group', 'Attention', same(layers.map((layer) => layer.group))],
      ['number', 'Layer', same(own.map((layer) => layer.number))],
      ['tensor', 'Tensor', known.filter((name) => name in current().tensors).map((name) => [name, name, about[name]])],
      ['scale', 'Scale of colours', [['head', 'each head'], ['layer', 'whole layer']]],
    ];
    controls.replaceChildren(...sets.filter(([key, , choices]) => key !== 'group' || choices.length > 1).map(([key, legend, choices]) => {
      const box = make('div', {class: 'choices'});
      for (const [value, text, title] of choices) {
        const input = make('input', {type: 'radio', name: 'map-' + key, value, ...(title ? {title} : {})});
        input.checked = shown[key] === value;
        input.addEventListener('change', () => {
          shown[key] = value;
          show();
        });
        box.append(make('label', {}, input, make('span', {}, text)));
      }
      return make('fieldset', {}, make('legend', {}, legend), box);
    }));
    if (focused?.startsWith('map-')) controls.querySelector(`input[name="${focused}"]:checked`)?.focus();
  };

  // A small map, which a press makes the large one.
  const smallMap = (map, head, tensor, pressed, label, notes, choose) => {
    const button = make('button', {type: 'button', 'aria-pressed': String(pressed), 'aria-label': label},
                        canvasOf(map, head, tensor), make('small', {}, ...notes));
    button.addEventListener('click', () => choose(button));
    return button;
  };
  const heads = make('div', {class: 'map-heads', role: 'group', 'aria-label': 'Heads'});
  const showHeads = (map) => {
    heads.style.setProperty('--small', map.shown > 16 ? '4.4rem' : map.shown > 9 ? '5.5rem' : '7rem');
    heads.replaceChildren(...map.low.map((_, head) => smallMap(
      map, head, shown.tensor, head === shown.head, `head ${head + 1}, ${short(map.low[head])} to ${short(map.high[head])}`,
      [make('b', {}, head + 1), make('span', {title: 'largest value'}, short(map.high[head]))], (button) => {
        shown.head = head;
        for (const other of heads.children) other.setAttribute('aria-pressed', String(other === button));
        showBig();
        const box = big.getBoundingClientRect();
        if (box.bottom < 40 || box.top > innerHeight - 80) big.scrollIntoView({block: 'nearest'});
      })));
  };
  heads.addEventListener('keydown', (event) => {
    const at = [...heads.children].indexOf(document.activeElement);
    const across = Math.max(1, getComputedStyle(heads).gridTemplateColumns.split(' ').length);
    const to = {ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - across, ArrowDown: at + across}[event.key];
    if (at < 0 || to === undefined || !heads.children[to]) return;
    event.preventDefault();
    heads.children[to].focus();
  });

  // The chosen head through the layer: J → L → W → U.
  const road = make('div', {class: 'map-road', role: 'group', 'aria-label': 'The chosen head, tensor by tensor'});
  const showRoad = () => {
    const there = known.filter((name) => shown.head < (tensorOf(name)?.shown ?? 0));
    road.replaceChildren(...there.map((name) => smallMap(
      tensorOf(name), shown.head, name, name === shown.tensor, `${name} of ${headName[name]} ${shown.head + 1}`,
      [make('b', {}, `${name} of head ${shown.head + 1}`)], () => {
        shown.tensor = name;
        show();
        road.querySelector('[aria-pressed="true"]')?.focus();
      })));
  };

  // The large map, with names of tokens along it: every so many-th, so that each has room, and the chosen one.
  const caption = make('figcaption'), readout = make('p', {class: 'readout'});
  const cells = make('div', {class: 'map-cells'});
  const rows = make('div', {class: 'map-rows', 'aria-hidden': 'true'});
  const columns = make('div', {class: 'map-columns', 'aria-hidden': 'true'});
  const axes = make('p', {class: 'map-axes'}, 'Down: queries. Across: memory positions. Grey: masked.');
  const big = make('figure', {class: 'map-big'}, caption, readout, make('div', {class: 'map-frame'}, rows, cells, columns, axes));
  const showNames = (column, row) => {
    const map = tensorOf(shown.tensor);
    for (const [box, names, side, pixels, at] of [[rows, map.rows, 'top', cells.clientHeight, row],
                                                  [columns, map.columns, 'left', cells.clientWidth, column]]) {
      const every = Math.max(1, Math.ceil(12 * names.length / Math.max(1, pixels)));
      box.replaceChildren(...names.flatMap((name, i) => {
        if (i !== at && (i % every !== 0 || Math.abs(i - at) < every)) return [];
        const label = make('span', i === at ? {class: 'on'} : {}, name);
        label.style[side] = percent((i + 0.5) / names.length);
        return [label];
      }));
      if (side === 'top') box.append(make('span', {class: 'widest'}, names.reduce((a, b) => (b.length > a.length ? b : a), '')));
    }
    columns.style.setProperty('--high', `${Math.max(...[...columns.children].map((label) => label.offsetHeight), 0) + 8}px`);
  };
  const hideCell = () => {
    cells.querySelector('.cell')?.remove();
    readout.textContent = 'Point at the map, or give it the arrow keys, to read values.';
    showNames();
  };
  const showCell = (column, row) => {
    const map = tensorOf(shown.tensor), m = map.columns.length, index = row * m + column;
    const mark = cells.appendChild(make('div', {class: 'cell'}));
    Object.assign(mark.style, {left: percent(column / m), top: percent(row / map.rows.length), width: percent(1 / m),
                               height: percent(1 / map.rows.length)});
    const value = valueAt(map, shown.head, index);
    const text = value === null ? 'masked' : `${shown.tensor} = ${short(value)}`;
    const others = known.flatMap((name) => {
      const other = name === shown.tensor ? null : tensorOf(name);
      if (other === null || shown.head >= other.shown || value === null) return [];
      return [`${name} = ${short(valueAt(other, shown.head, index) ?? NaN)}`];
    });
    const pair = `${map.rows[row]} → ${map.columns[column]}`;
    readout.replaceChildren(make('b', {}, text), ` at ${pair}`,
                            others.length > 0 ? ` (head ${shown.head + 1} of the others: ${others.join(', ')})` : '');
    showNames(column, row);
    return `${pair}: ${text}`;
  };
  const showBig = () => {
    const map = tensorOf(shown.tensor), head = shown.head;
    caption.replaceChildren(`${shown.tensor} of ${headName[shown.tensor]} ${head + 1}`,
                            make('span', {}, `${short(map.low[head])} to ${short(map.high[head])}`));
    cells.replaceChildren(canvasOf(map, head, shown.tensor));
    cells.setAttribute('aria-label', `Map of ${shown.tensor}, head ${head + 1}`);
    showRoad();
    resetCell();
  };

  const description = make('p');
  const show = () => {
    decoded.clear();
    const own = layers.filter((layer) => layer.group === shown.group);
    if (!current()) shown.number = own[0].number;
    const layer = current();
    if (!(shown.tensor in layer.tensors)) shown.tensor = known.find((name) => name in layer.tensors);
    const map = tensorOf(shown.tensor);
    shown.head = clamp(shown.head, 0, map.shown - 1);
    view.style.setProperty('--ratio', `${map.columns.length}/${map.rows.length}`);
    showControls();
    const of = map.shown < map.heads ? `, the first ${map.shown} of ${map.heads} heads` : `, ${map.heads} heads`;
    const absent = (name) => known.includes(name) && !(name in layer.tensors);
    description.replaceChildren(
      make('strong', {}, `${layer.group}, layer ${layer.number}, ${shown.tensor}`), `${of}: ${about[shown.tensor]}. `,
      absent('U') ? 'Nothing mixes the weights here, so that U is W. ' : '',
      absent('J') && 'L' in layer.tensors ? 'This kind of attention has no J. ' : '',
      layer.module === layer.layer ? '' : `The parameters are those of ${layer.module}, which several layers share.`);
    showHeads(map);
    showBig();
  };
  view.replaceChildren(controls, description, make('div', {class: 'map-panes'}, heads, make('div', {}, road, big)));
  const resetCell = makeReadable(cells, () => [tensorOf(shown.tensor).columns.length, tensorOf(shown.tensor).rows.length],
                                 showCell, hideCell);
  show();
  addEventListener('resize', () => { if (cells.querySelector('.cell') === null) showNames(); });
})();
