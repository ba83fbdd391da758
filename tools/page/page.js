// What a page does beyond showing: the switch of the colour scheme, and values under the pointer and the arrow keys.
// Without it the page is complete.
'use strict';
(() => {
  const dark = document.getElementById('dark');
  const scheme = document.getElementById('scheme');
  const system = matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;  // by the reader, against the system's
  const showScheme = () => {
    const isDark = chosen ?? system.matches;
    dark.media = isDark ? 'screen' : 'not all';
    scheme.textContent = isDark ? 'Light colours' : 'Dark colours';  // what a press does
  };
  scheme.hidden = false;
  scheme.addEventListener('click', () => {
    chosen = !(chosen ?? system.matches);
    showScheme();
  });
  system.addEventListener('change', showScheme);
  showScheme();

  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  // The index of the value of a sorted list that is nearest to x.
  const nearest = (xs, x) => {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle; else high = middle;
    }
    return Math.abs(xs[high] - x) < Math.abs(xs[low] - x) ? high : low;
  };
  // A screen reader passes the arrow keys to a slider, and reads its text when they move it.
  const makeSlider = (element, most) => {
    element.setAttribute('role', 'slider');
    element.setAttribute('aria-valuemin', '0');
    element.setAttribute('aria-valuemax', String(most));
    element.setAttribute('aria-valuenow', '0');
    element.setAttribute('aria-valuetext', 'use the arrow keys');
    element.tabIndex = 0;
  };
  const tell = (element, now, text) => {
    element.setAttribute('aria-valuenow', String(now));
    element.setAttribute('aria-valuetext', text);
  };

  for (const chart of document.querySelectorAll('figure.chart')) {
    const plot = chart.querySelector('.plot');
    const entries = [...chart.querySelectorAll('.legend li')];
    const atText = chart.querySelector('.legend .at');
    const series = entries.map((entry) => {
      const list = (name) => (entry.dataset[name] ?? '').split(' ').filter((word) => word !== '');
      const value = entry.querySelector('.value');
      return {
        name: entry.querySelector('.name').textContent,
        xs: list('x').map(Number), ys: list('y'), lows: list('low'), highs: list('high'),
        colour: entry.dataset.colour, value, last: value.textContent,
      };
    }).filter((one) => one.xs.length > 0);
    if (series.length === 0) continue;
    const {xLow, xHigh, xLog, yLow, yHigh, yLog, unit = '', xLabel} = plot.dataset;
    const placeIn = (low, high, log) => {
      const scale = log ? Math.log : (value) => value;
      const first = scale(Number(low)), last = scale(Number(high));
      return (value) => (scale(value) - first) / (last - first);
    };
    const placeX = placeIn(xLow, xHigh, xLog), placeY = placeIn(yLow, yHigh, yLog);
    const points = [...new Set(series.flatMap((one) => one.xs))].sort((a, b) => a - b);
    makeSlider(plot, points.length - 1);
    const atLast = atText.textContent;
    const number = (x) => x.toLocaleString('en-US', {maximumFractionDigits: 6});
    // "17148" as "17,148", any other text as it stands.
    const grouped = (text) => /^-?\d+$/.test(text) ? Number(text).toLocaleString('en-US') : text;
    let current = points.length - 1;

    const hide = () => {
      for (const drawn of plot.querySelectorAll('.cursor, .dot')) drawn.remove();
      atText.textContent = atLast;
      for (const one of series) one.value.textContent = one.last;
    };
    const show = (index) => {
      hide();
      current = clamp(index, 0, points.length - 1);
      const x = points[current];
      const cursor = plot.appendChild(document.createElement('div'));
      cursor.className = 'cursor';
      cursor.style.left = 100 * placeX(x) + '%';
      atText.textContent = `${xLabel} ${number(x)}`;
      const said = [];
      for (const one of series) {
        const i = nearest(one.xs, x);
        const near = Math.abs(one.xs[i] - x) <= 0.005 * (xHigh - xLow) ? '' : ` at ${number(one.xs[i])}`;
        const range = one.lows.length > 0 && one.lows[i] !== one.highs[i] ? ` (${grouped(one.lows[i])} to ${grouped(one.highs[i])})` : '';
        one.value.textContent = grouped(one.ys[i]) + unit + range + near;
        said.push(`${one.name} ${one.value.textContent}`);
        const dot = plot.appendChild(document.createElement('div'));
        dot.className = 'dot';
        dot.style.left = 100 * placeX(one.xs[i]) + '%';
        dot.style.bottom = 100 * clamp(placeY(Number(one.ys[i])), 0, 1) + '%';
        dot.style.background = `var(--series-${one.colour})`;
      }
      tell(plot, current, `${atText.textContent}: ${said.join('; ')}`);
    };

    plot.addEventListener('pointermove', (event) => {
      const box = plot.getBoundingClientRect();
      show(nearest(points.map(placeX), (event.clientX - box.left) / box.width));
    });
    plot.addEventListener('pointerleave', hide);
    plot.addEventListener('blur', hide);
    plot.addEventListener('keydown', (event) => {
      const far = Math.max(1, Math.round(points.length / 10));
      const target = {
        ArrowLeft: current - 1, ArrowDown: current - 1, ArrowRight: current + 1, ArrowUp: current + 1,
        PageDown: current - far, PageUp: current + far, Home: 0, End: points.length - 1,
      }[event.key];
      if (event.key === 'Escape') hide();
      if (target === undefined) return;
      event.preventDefault();
      show(target);
    });
  }

  for (const heat of document.querySelectorAll('figure.heat')) {
    const cells = heat.querySelector('.cells');
    const image = heat.querySelector('img');
    const readout = heat.querySelector('.readout');
    const rows = Number(cells.dataset.rows), columns = Number(cells.dataset.columns);
    const rowNames = JSON.parse(cells.dataset.rowNames), columnNames = JSON.parse(cells.dataset.columnNames);
    const exact = (cells.dataset.values ?? '').split(' ').filter((word) => word !== '');
    const rest = readout.textContent;
    let pixels = null;
    // Without exact values the image has them in 255 levels.
    const valueAt = (row, column) => {
      if (exact.length > 0) return exact[row * columns + column];
      if (pixels === null) {
        const canvas = document.createElement('canvas');
        [canvas.width, canvas.height] = [columns, rows];
        const context = canvas.getContext('2d');
        context.drawImage(image, 0, 0);
        pixels = context.getImageData(0, 0, columns, rows).data;
      }
      const at = 4 * (row * columns + column);
      const sign = pixels[at] > pixels[at + 2] ? -1 : 1;
      return (sign * pixels[at + 3] / 255 * cells.dataset.most).toPrecision(2);
    };
    makeSlider(cells, rows * columns - 1);
    let row = 0, column = 0;
    const hide = () => {
      heat.querySelector('.cell')?.remove();
      readout.textContent = rest;
    };
    const show = () => {
      hide();
      row = clamp(row, 0, rows - 1);
      column = clamp(column, 0, columns - 1);
      const frame = cells.appendChild(document.createElement('div'));
      frame.className = 'cell';
      Object.assign(frame.style, {
        left: 100 * column / columns + '%', top: 100 * row / rows + '%',
        width: 100 / columns + '%', height: 100 / rows + '%',
      });
      readout.textContent = `${rowNames[row] ?? row}, ${columnNames[column] ?? column}: ${valueAt(row, column)}`;
      tell(cells, row * columns + column, readout.textContent);
    };
    cells.addEventListener('pointermove', (event) => {
      const box = cells.getBoundingClientRect();
      row = Math.floor((event.clientY - box.top) / box.height * rows);
      column = Math.floor((event.clientX - box.left) / box.width * columns);
      show();
    });
    cells.addEventListener('pointerleave', hide);
    cells.addEventListener('blur', hide);
    cells.addEventListener('keydown', (event) => {
      const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
                     Home: [0, -columns], End: [0, columns], PageUp: [-rows, 0], PageDown: [rows, 0]};
      if (event.key === 'Escape') hide();
      const move = moves[event.key];
      if (move === undefined) return;
      event.preventDefault();
      row += move[0];
      column += move[1];
      show();
    });
  }
})();
