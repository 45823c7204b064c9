// What is wrong with a page as it is drawn, and how much there is of what; for tests/page.rs.
addEventListener('load', () => {
  for (const details of document.querySelectorAll('details')) details.open = true;
  const wrong = [];
  const complain = (what, element) => wrong.push(what + ': ' + (element.textContent || element.tagName).slice(0, 80));
  const colour = text => (text.match(/[\d.]+/g) || [0, 0, 0]).map(Number);
  const light = ([r, g, b]) => {
    const part = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const contrast = (a, b) => {
    const [x, y] = [light(colour(a)), light(colour(b))].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const inside = (inner, outer, slack) => inner.left >= outer.left - slack && inner.right <= outer.right + slack
    && inner.top >= outer.top - slack && inner.bottom <= outer.bottom + slack;
  for (const drawing of document.querySelectorAll('svg.drawing')) {
    const frame = drawing.getBoundingClientRect();
    const boxes = [...drawing.querySelectorAll('.box')];
    const places = boxes.map(box => box.querySelector('rect').getBoundingClientRect());
    boxes.forEach((box, number) => {
      const place = places[number];
      if (place.width < 20 || place.height < 15 || !box.checkVisibility()) complain('invisible', box);
      if (!inside(place, frame, 0)) complain('outside the drawing', box);
      const fill = getComputedStyle(box.querySelector('rect')).fill;
      for (const text of box.querySelectorAll('text')) {
        if (!inside(text.getBoundingClientRect(), place, 1)) complain('text out of its box', text);
        if (contrast(getComputedStyle(text).fill, fill) < 4.5) complain('faint', text);
      }
      for (let other = 0; other < number; other++) {
        const p = places[other];
        if (place.left < p.right && p.left < place.right && place.top < p.bottom && p.top < place.bottom) complain('overlaps', box);
      }
    });
    for (const line of drawing.querySelectorAll(':scope > path')) {
      if (!inside(line.getBoundingClientRect(), frame, 2)) complain('a line leaves the drawing', line);
      for (let at = 3; at < line.getTotalLength() - 3; at += 5) {
        const point = line.getPointAtLength(at), [x, y] = [point.x + frame.left, point.y + frame.top];
        const crossed = places.findIndex(p => x > p.left + 2 && x < p.right - 2 && y > p.top + 2 && y < p.bottom - 2);
        if (crossed >= 0) { complain('a line crosses', boxes[crossed]); break; }
      }
    }
  }
  for (const plot of document.querySelectorAll('svg.roofline[viewBox]')) {
    const frame = plot.getBoundingClientRect();
    for (const text of plot.querySelectorAll('text, circle, rect')) {
      if (!inside(text.getBoundingClientRect(), frame, 0)) complain('clipped', text);
    }
  }
  const main = document.querySelector('main').getBoundingClientRect();
  for (const text of document.querySelectorAll('.plot em, .axis span, h1, h2, h3, .badge, .notice, td, th, summary')) {
    const place = text.getBoundingClientRect();
    const scrolled = text.closest('.scroll, .wide');
    if (!scrolled && (place.left < main.left - 1 || place.right > main.right + 1)) complain('outside the page', text);
    if (text.scrollWidth > text.clientWidth + 1 && text.clientWidth > 0 && getComputedStyle(text).display !== 'inline') complain('clipped', text);
  }
  for (const text of document.querySelectorAll('p, li, td, th, b, small, em, a, pre i, pre b, pre s, pre u')) {
    let behind = text;
    while (behind && colour(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
    if (behind && contrast(getComputedStyle(text).color, getComputedStyle(behind).backgroundColor) < 4.5) complain('faint', text);
  }
  if (document.scrollingElement.scrollWidth > innerWidth) complain('wider than the window', document.querySelector('h1'));
  if (window.evil !== undefined || document.images.length) complain('a name ran as code', document.querySelector('h1'));
  const count = selector => document.querySelectorAll(selector).length;
  const found = {
    wrong, dark: matchMedia('(prefers-color-scheme: dark)').matches, background: getComputedStyle(document.body).backgroundColor,
    operations: count('.box.g1, .box.core, .box.g2, .box.unknown'), inputs: count('.box.input'), lines: count('svg.drawing > path'),
    broken: count('.box.broken'), changed: count('.box.change'), graphs: count('details.graph'), rows: count('tr[data-text]'),
    rooflines: count('svg.roofline[viewBox]'), bars: count('.plot .row'),
  };
  const search = document.getElementById('search');
  if (search) {
    search.value = 'MalFormed';
    search.dispatchEvent(new Event('input'));
    found.searched = [...document.querySelectorAll('[data-text]')].filter(item => item.checkVisibility()).length;
  }
  const output = document.createElement('output');
  output.id = 'measured';
  output.textContent = JSON.stringify(found);
  document.body.append(output);
});
